"""stompman over TLS: python stompman_client.py HOST PORT CA LOGIN PASSCODE. One message goes out and comes back, and
"done" is printed.
"""

import asyncio
import ssl
import sys

import stompman

host, port, ca_file, login, passcode = sys.argv[1:]


async def main() -> None:
    server = stompman.ConnectionParameters(host=host, port=int(port), login=login, passcode=passcode)
    context = ssl.create_default_context(cafile=ca_file)
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(frame: stompman.MessageFrame) -> None:
        heard.put_nowait(frame.body)

    async with asyncio.timeout(10), stompman.Client([server], ssl=context, connect_retry_attempts=1) as client:
        subscription = await client.subscribe("/queue/stompman", hear, on_suppressed_exception=lambda *_: None)
        await client.send(b"hello", "/queue/stompman")
        assert await heard.get() == b"hello"
        await subscription.unsubscribe()


asyncio.run(main())
print("done")
