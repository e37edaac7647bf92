"""The bundled plugins. They enter the harness through the same door as a stranger's."""
