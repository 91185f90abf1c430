import pytest

from radiator.model.users import Token, User, user_name_mistake


@pytest.mark.parametrize("name", ["a", "shop.eu-1_x@example", "9", "x" * 64])
def test_a_right_name(name: str) -> None:
    assert user_name_mistake(name) == ""


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a/b", "a:b", "a\n", "*", "#", "ä", "a\0"])
def test_a_wrong_name(name: str) -> None:
    assert "1 to 64 of A-Z" in user_name_mistake(name)


def test_nothing_secret_is_shown() -> None:
    user = User(name="shop", password="$scrypt$hidden", tokens=(Token("hidden"),))
    assert "hidden" not in repr(user) and "shop" in repr(user)
