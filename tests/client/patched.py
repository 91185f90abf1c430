"""What a gevent program does first; then one of programs.py: `python -m tests.client.patched NAME ADDRESS`."""

from gevent import monkey

monkey.patch_all()

if __name__ == "__main__":
    import runpy

    runpy.run_module("tests.client.programs", run_name="__main__")
