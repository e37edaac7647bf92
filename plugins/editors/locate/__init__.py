"""Editors that solve for a change of MLPs: ROME, MEMIT and kin."""
