"""``python -m edit_harness``."""

from edit_harness.cli import main

if __name__ == "__main__":
    main()
