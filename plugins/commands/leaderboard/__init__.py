"""The leaderboard: runs as bundles, bundles checked by a stranger, and what they are checked against.

Nothing here believes a bundle. It is unpacked and parsed in a process within limits (`inspecting`), by
checks that have numbers (`checks`), and only then shown (`building`).
"""
