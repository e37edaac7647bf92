"""``python -m edit_harness``."""

from .cli import main

if __name__ == "__main__":
    main()
