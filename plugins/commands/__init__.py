"""The bundled commands."""
