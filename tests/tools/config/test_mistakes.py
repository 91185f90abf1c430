"""Where a mistake stands."""

from pathlib import Path

from radiator.tools.config.mistakes import Mistakes, dotted, lines_of_keys

TEXT = '''# a comment
server.listen = []

[limits]  # another
max_headers = 3
heart_beat_ms = [
    1,  # [queue.no]
    2,
]
"text" = """
[queue.neither]
a = 1
"""
[queue."a.b"]
persistent = true
'dead_letter'='x'
[queue]
c = {max_bytes = 1, overflow = "block"}
[[array]]
key = 1
'''


def test_lines_of_keys_are_those_of_the_text() -> None:
    for text in (TEXT, TEXT.replace("\n", "\r\n")):
        assert dict(lines_of_keys(text)) == {
            ("server",): 2,
            ("server", "listen"): 2,
            ("limits",): 4,
            ("limits", "max_headers"): 5,
            ("limits", "heart_beat_ms"): 6,
            ("limits", "text"): 10,
            ("queue", "a.b"): 14,
            ("queue", "a.b", "persistent"): 15,
            ("queue", "a.b", "dead_letter"): 16,
            ("queue",): 17,
            ("queue", "c"): 18,
            ("queue", "c", "max_bytes"): 18,
            ("queue", "c", "overflow"): 18,
            ("array",): 19,
            ("array", "key"): 20,
        }


def test_a_place_without_a_line_has_that_of_its_table_or_none() -> None:
    mistakes = Mistakes()
    mistakes.add(("elsewhere",), "is wrong")
    mistakes.add(("limits", "absent"), "is wrong; did you mean that?")
    mistakes.add(("server", "listen"), "is wrong")
    assert mistakes.sentences(Path("f.toml"), TEXT) == [
        "f.toml, line 2: server.listen is wrong.",
        "f.toml, line 4: limits.absent is wrong; did you mean that?",
        "f.toml: elsewhere is wrong.",
    ]


def test_a_table_stands_where_it_is_first_named() -> None:
    mistakes = Mistakes()
    mistakes.add(("queue",), "is wrong")
    assert mistakes.sentences(Path("f.toml"), "[queue.a]\n[queue.b]\n") == ["f.toml, line 1: queue is wrong."]


def test_keys_are_dotted_as_toml_has_them() -> None:
    assert dotted(("queue", "a", "b-c_1")) == "queue.a.b-c_1"
    assert dotted(("queue", 'a.b"c', "")) == 'queue."a.b\\"c".""'
