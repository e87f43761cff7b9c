#!/usr/bin/python3
"""A connector in Python: the source follows the lines of a file, the destination appends
records to a file, one line of JSON each. It needs grpcio and nothing else."""

import base64
import json
import os
import signal
import struct
import sys
import threading
from concurrent import futures

try:
    import grpc
except ImportError:
    sys.exit("needs grpcio: run apt-get install python3-grpcio, or pip install grpcio in the Python of the #! line")

COOKIE = "204e8e812c3a1bb73b838928c575b42a105dd2e9aa449be481bc4590486df53f"


# Protocol Buffers, as much of them as the protocol needs.


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    """A field with bytes, text, or a number as its value."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def take_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        n |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return n, at


def fields(data):
    """The fields of a message: numbers with lists of values."""
    found, at = {}, 0
    while at < len(data):
        tag, at = take_varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = take_varint(data, at)
        elif kind == 2:
            size, at = take_varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at : at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def first(message, number, default=b""):
    return message.get(number, [default])[0]


def text_map(entries):
    pairs = (fields(e) for e in entries)
    return {first(p, 1).decode(): first(p, 2).decode() for p in pairs}


def structured(data):
    """A google.protobuf.Struct."""
    pairs = (fields(e) for e in fields(data).get(1, []))
    return {first(p, 1).decode(): value(first(p, 2)) for p in pairs}


def value(data):
    v = fields(data)
    if 2 in v:
        return struct.unpack("<d", v[2][0])[0]
    if 3 in v:
        return v[3][0].decode()
    if 4 in v:
        return bool(v[4][0])
    if 5 in v:
        return structured(v[5][0])
    if 6 in v:
        return [value(e) for e in fields(v[6][0]).get(1, [])]
    return None


# Logs are lines of JSON on stderr.


def log(level, message, **more):
    line = {"@level": level, "@message": message, **more}
    print(json.dumps(line), file=sys.stderr, flush=True)


# What source and destination have in common.


class Refused(Exception):
    """An error with a message for the user."""


class Connector:
    path = None

    def configure(self, request):
        settings = text_map(fields(request).get(1, []))
        unknown = sorted(set(settings) - {"path"})
        if unknown:
            raise Refused(f'"{unknown[0]}": is not a setting of this plugin')
        self.path = settings.get("path", "").strip()
        if not self.path:
            raise Refused('"path": is required')
        return b""

    def nothing(self, request):
        return b""


class Source(Connector):
    """A position is the number of bytes up to the end of the line, in decimal."""

    def __init__(self):
        self.offset = 0
        self.last = b""  # position of the last record sent
        self.stopping = threading.Event()
        self.idle = threading.Event()  # nothing more will be sent
        self.idle.set()

    def open(self, request):
        position = first(fields(request), 1)
        try:
            self.offset = int(position or b"0")
        except ValueError:
            raise Refused(f"cannot resume at position {position!r}")
        return b""

    def run(self, requests, context):
        self.idle.clear()
        acks = threading.Thread(target=self.take_acks, args=(requests,), daemon=True)
        acks.start()
        try:
            while not self.stopping.is_set() and context.is_active():
                records = self.read()
                if records:
                    yield b"".join(field(1, r) for r in records)
                else:
                    self.stopping.wait(0.02)
        finally:
            self.idle.set()
        acks.join()  # the host goes on acknowledging until it closes its side

    def take_acks(self, requests):
        try:
            for request in requests:
                pass  # fields(request)[1] are positions; what was held back for them may go
        except grpc.RpcError:
            pass  # the host is gone
        self.stopping.set()

    def read(self):
        records = []
        try:
            with open(self.path, "rb") as f:
                f.seek(self.offset)
                for line in f.readlines(1 << 20):
                    if not line.endswith(b"\n"):
                        break
                    self.offset += len(line)
                    self.last = str(self.offset).encode()
                    payload = field(2, field(1, line[:-1]))  # Change.after, Data.raw_data
                    records.append(field(1, self.last) + field(2, 1) + field(5, payload))
        except FileNotFoundError:
            pass  # it may come
        return records

    def stop(self, request):
        self.stopping.set()
        self.idle.wait()
        return field(1, self.last)

    def teardown(self, request):
        self.stopping.set()
        return b""


class Destination(Connector):
    file = None

    def open(self, request):
        self.file = open(self.path, "ab")
        return b""

    def run(self, requests, context):
        for request in requests:
            acks = []
            try:
                for data in fields(request).get(1, []):
                    record = fields(data)
                    error = self.write(record)
                    ack = field(1, first(record, 1)) + (field(2, error) if error else b"")
                    acks.append(field(1, ack))
                self.file.flush()
                os.fsync(self.file.fileno())  # an answer says that the record is safe
            except OSError as err:  # no record's fault
                context.abort(grpc.StatusCode.UNAVAILABLE, f"cannot write: {err}")
            yield b"".join(acks)

    def write(self, record):
        """Writes a record. Returns why it is refused, or nothing."""
        change = fields(first(record, 5))
        try:
            line = {
                "operation": {1: "create", 2: "update", 3: "delete", 4: "snapshot"}.get(first(record, 2, 0)),
                "metadata": text_map(record.get(3, [])),
                "key": content(first(record, 4)),
                "before": content(first(change, 1)),
                "after": content(first(change, 2)),
            }
            self.file.write(json.dumps(line).encode() + b"\n")
        except ValueError as err:
            return f"cannot write: {err}"
        return None

    def teardown(self, request):
        if self.file:
            self.file.close()
        return b""


def content(data):
    """Raw data as text if it is text, else in base64; structured data as an object."""
    message = fields(data)
    if 2 in message:
        return structured(message[2][0])
    if 1 not in message:
        return None
    try:
        return message[1][0].decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(message[1][0]).decode()}


# The services.


def specify(request):
    file_parameter = lambda text: field(2, text) + field(3, 5) + field(4, field(1, 1))  # required
    parameters = lambda text: field(1, "path") + field(2, file_parameter(text))
    return field(
        1,
        field(1, "python-lines")
        + field(2, "Reads and writes lines.")
        + field(3, "A connector in Python, to learn from.")
        + field(4, "v0.1.0")
        + field(5, "conduit")
        + field(6, parameters("File to append to."))
        + field(7, parameters("File whose lines are read.")),
    )


def unary(call):
    def handle(request, context):
        try:
            return call(request)
        except (Refused, OSError) as err:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(err))

    return grpc.unary_unary_rpc_method_handler(handle)


def service(connector):
    handlers = {
        "Configure": unary(connector.configure),
        "Open": unary(connector.open),
        "Run": grpc.stream_stream_rpc_method_handler(connector.run),
        "Stop": unary(getattr(connector, "stop", connector.nothing)),
        "Teardown": unary(connector.teardown),
    }
    for event in ("Created", "Updated", "Deleted"):
        handlers["LifecycleOn" + event] = unary(connector.nothing)
    return handlers


def main():
    if os.environ.get("CONDUIT_PLUGIN_MAGIC_COOKIE") != COOKIE:
        sys.exit("This is a connector. Put it into the directory for connectors of the agent, which starts it.")
    if "2" not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(","):
        sys.exit("The host does not speak version 2 of the connector protocol.")
    limit = int(os.environ.get("CONDUIT_CONNECTOR_MAX_RECEIVE_RECORD_SIZE") or 4 << 20)
    server = grpc.server(
        futures.ThreadPoolExecutor(8),
        options=[("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", -1)],
    )
    for name, handlers in {
        "SpecifierPlugin": {"Specify": unary(specify)},
        "SourcePlugin": service(Source()),
        "DestinationPlugin": service(Destination()),
    }.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("connector.v2." + name, handlers),))
    directory = os.environ.get("PLUGIN_UNIX_SOCKET_DIR")
    if directory:
        network, address = "unix", os.path.join(directory, "python")
        server.add_insecure_port("unix:" + address)
    else:
        network, address = "tcp", f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.start()
    print(f"1|2|{network}|{address}|grpc|", flush=True)
    log("debug", "connector is ready", connector=os.environ.get("CONDUIT_CONNECTOR_ID", ""))
    server.wait_for_termination()


main()
