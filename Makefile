# The verbs of the house. `make check` while you work: lint, types, and the tests of single parts, under 25 s.
.PHONY: check test prove bench serve clean

check:
	FAST=1 scripts/test

test:
	scripts/test

prove:
	scripts/prove

bench:
	scripts/bench

serve:
	scripts/serve

clean:
	rm -rf .venv build dist radiator.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find radiator tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
