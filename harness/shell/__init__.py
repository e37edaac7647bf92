"""What commands share: flags that become plugins and settings, the terminal, signals."""
