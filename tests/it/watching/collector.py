# A collector of traces: decodes what comes with OpenTelemetry's own messages, and prints each batch as a line of JSON. The first
# argument has the statuses that the first requests are answered with, as in "503,400" ("-": none); then each is 200.
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest, ExportTraceServiceResponse)
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

statuses = [int(status) for status in sys.argv[1].split(",") if status.isdigit()]

def value(any_value):
    return getattr(any_value, any_value.WhichOneof("value"))

def attributes(pairs):
    return {pair.key: value(pair.value) for pair in pairs}

class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        batch = ExportTraceServiceRequest.FromString(body)
        status = statuses.pop(0) if statuses else 200
        spans = []
        for of_resource in batch.resource_spans:
            for scoped in of_resource.scope_spans:
                for span in scoped.spans:
                    spans.append({
                        "name": span.name, "kind": span.kind, "trace": span.trace_id.hex(), "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(), "begin": span.start_time_unix_nano,
                        "end": span.end_time_unix_nano, "is": attributes(span.attributes),
                        "status": span.status.code, "why": span.status.message,
                        "scope": scoped.scope.name, "resource": attributes(of_resource.resource.attributes)})
        told = {"path": self.path, "type": self.headers["content-type"], "key": self.headers.get("x-key"),
                "host": self.headers["host"], "answered": status, "spans": spans}
        print(json.dumps(told), flush=True)
        answer = ExportTraceServiceResponse()
        if status == 206:
            status = 200
            answer.partial_success.rejected_spans = 1
            answer.partial_success.error_message = "one too many"
        answer = answer.SerializeToString()
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
