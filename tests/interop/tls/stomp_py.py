"""stomp.py over TLS: python stomp_py.py HOST PORT CA LOGIN PASSCODE. One message goes out and comes back: "done"."""

import queue
import sys

import stomp

host, port, ca_file, login, passcode = sys.argv[1:]


class Listener(stomp.ConnectionListener):
    def __init__(self) -> None:
        self.bodies: queue.Queue[str] = queue.Queue()

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.bodies.put(frame.body)

    def on_error(self, frame: stomp.utils.Frame) -> None:
        sys.exit(frame.body)


connection = stomp.Connection12([(host, int(port))], reconnect_attempts_max=1)
connection.set_ssl([(host, int(port))], ca_certs=ca_file)
listener = Listener()
connection.set_listener("", listener)
connection.connect(login, passcode, wait=True)
connection.subscribe("/queue/stomp.py", id="0")
connection.send("/queue/stomp.py", "hello")
assert listener.bodies.get(timeout=10) == "hello"
connection.disconnect()
print("done")
