"""Editors that train weights or adapters on the fact."""
