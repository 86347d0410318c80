"""Katib's gRPC messages and services for Python, from our .proto file: needs protoc, and grpcio in sys.path."""

import pathlib
import subprocess
import tempfile

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = "runtime/protocol/katib/v1beta1/api.proto"
PACKAGE = "api.v1.beta1"


def _load():
    with tempfile.NamedTemporaryFile() as made:
        subprocess.run(["protoc", f"-I{ROOT}", "--include_imports", f"--descriptor_set_out={made.name}", PROTO], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(made.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return pool


POOL = _load()


def message(name):
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _methods(service):
    for method in POOL.FindServiceByName(f"{PACKAGE}.{service}").methods:
        yield (method.name, message_factory.GetMessageClass(method.input_type), message_factory.GetMessageClass(method.output_type))


def serve(server, service, servicer):
    """Adds a servicer to a server as generated code would. A method that it lacks is UNIMPLEMENTED."""
    handlers = {name: grpc.unary_unary_rpc_method_handler(getattr(servicer, name), asked.FromString, lambda reply: reply.SerializeToString())
                for name, asked, _ in _methods(service) if hasattr(servicer, name)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{PACKAGE}.{service}", handlers),))


class Stub:
    """The calls of a service."""

    def __init__(self, channel, service):
        for name, asked, replied in _methods(service):
            call = channel.unary_unary(f"/{PACKAGE}.{service}/{name}", request_serializer=lambda one: one.SerializeToString(), response_deserializer=replied.FromString)
            setattr(self, name, call)
