"""Texts that a screen, a page, a sheet or a template would obey, if anybody let them."""

CONTROLS = [f"a{chr(c)}b" for c in (*range(32), 127, *range(128, 160))]
INVISIBLE = [
    f"left{chr(c)}right"
    for c in (0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070),
              0xFEFF, 0xFFF9, 0xFFFA, 0xFFFB, 0x1D173, 0xE0001, 0xE0041)
]  # fmt: skip
HALVES = ["\ud800", "a\udfffb", "\udcff\udc80", "\ud83d", "\ude00\ud83d"]
SEQUENCES = [
    "\x1b[31mred\x1b[0m", "\x1b[2J\x1b[H", "\x1b[1A\x1b[2Kok", "\x1b]0;title\x07", "\x1b]2;title\x1b\\",
    "\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;ZXZpbA==\x07", "\x1b]1337;File=:AA==\x07",
    "\x1bPq#0\x1b\\", "\x1b[6n", "\x1b[c", "\x1b[?1049h", "\x1b[?25l", "\x1bc", "\x1b(0", "\x1b_G\x1b\\",
    "\x9b31mred", "\x9d0;title\x9c", "\x90q\x9c", "\u009b2J", "safe\rERASED", "ok\b\b\bno", "a\x0b\x0cb",
    "\x1b[200~rm -rf ~\n\x1b[201~", "x\nsaved    results/feigned/", "x\r\nerror: feigned", "tab\tbed",
]  # fmt: skip
MARKUP = [
    "[bold]", "[/bold]", "[/]", "[red]x[/red]", "[link=file:///etc/passwd]x[/link]", "[@click=bell]x[/]",
    "[not a tag]", "\\[bold]", "[[x]]", "[b][i][/b][/i]", ":smile:", ":warning:", "[blink on red]",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "</td></table>",
    "'\"><script>alert(1)</script>", "javascript:alert(1)", "&lt;b&gt;", "<!--", "]]>", "</script>",
    "<a href='//x.example'>x</a>", "<iframe src=//x.example>", "<style>*{display:none}</style>",
    "{{7*7}}", "{% for x in y %}", "${7*7}", "#{7*7}", "{0.__class__}", "%s%n%x", "{}", "{0}", "%(name)s",
    "=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "|pipe|", "a|b\\|c", "`code`", "***", "# head",
    "![x](//x.example/i.png)", "[x](javascript:alert(1))", "\\input{/etc/passwd}", "$x_1$", "50% & more",
    "\\write18{id}", "~^_", "; rm -rf ~", "$(id)", "`id`", "&& id", "| id", "' OR 1=1 --", "../../etc/passwd",
    "/etc/passwd", "C:\\con", "nul", "-rf", "--debug", "con.txt", ".", "..", "~", "*", "?",
]  # fmt: skip
WIDE = [
    "emoji 👩‍🔬", "flags 🇳🇴", "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L", "ｆｕｌｌ", "漢字かな", "مرحبا", "שלום", "nbsp\u00a0x", "ﷺ" * 9,
    "\u3000", " ", "", "x" * 5000, "漢" * 900, "\ufffe", "\U0010ffff", "\ue000", "é", "e\u0301", "ﬀ", "İi",
    "null", "NaN", "Infinity", "-0", "1e999", "9" * 400, "true", "None", "undefined", "0x1F",
]  # fmt: skip
STRINGS = list(dict.fromkeys((*CONTROLS, *INVISIBLE, *HALVES, *SEQUENCES, *MARKUP, *WIDE)))
