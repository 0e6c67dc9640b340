"""A model on this machine that answers every request after the same time, at little cost.

    python tests/system/bench/model_server.py SECONDS

Prints its port. When it is ended, prints one JSON object: how many requests there were, the CPU that it took, and from
when to when each was under way, in seconds of the monotonic clock.
"""

import asyncio
import json
import signal
import sys
import time

times: list[tuple[float, float]] = []


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, after_s: float) -> None:
    """The requests of one connection, until it is closed."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        begun = time.monotonic()
        await asyncio.sleep(after_s)
        times.append((begun, time.monotonic()))
        city = body["messages"][-1]["content"].removeprefix("Weather in ").removesuffix("?")
        call = {"name": "get_weather", "arguments": json.dumps({"city": city})}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": call}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        data = json.dumps({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data
        )


async def main(after_s: float) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = await asyncio.start_server(lambda reader, writer: answer(reader, writer, after_s), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    print(json.dumps({"requests": len(times), "cpu_s": time.process_time(), "times": times}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
