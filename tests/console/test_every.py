"""The list of all pages is whole."""

from tests.console.every import DETAILS, WEB, places, table


def test_each_file_of_a_page_is_in_the_table_and_each_page_of_one_thing_has_an_example() -> None:
    text = (WEB / "app.js").read_text()
    parts = {"queue-acts"}  # of other pages
    files = {file.stem for file in WEB.glob("pages/*.js")} - parts
    assert {one for one in files if f"./pages/{one}.js" in text} == files
    assert {name for name, rest in table().items() if "path.length ?" in rest} == DETAILS.keys()
    assert "#/" in places() and "#/queues/orders" in places() and len(places()) == len(table()) + 5
