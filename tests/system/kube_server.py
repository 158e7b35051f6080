#!/usr/bin/env python3
"""A stand-in for the Kubernetes API server, as far as an agent can see one.

  kube_server.py serve ADDRESS PORT CONTROL [CERT KEY [CLIENT-CA]]
  kube_server.py ctl CONTROL JSON     one command, prints the answer

It serves nodes (list, watch, server-side apply), pods, services and
endpointslices (list by one selector), and takes Events. Like the real one it pages lists, keeps a
limited history, sends bookmarks to who asks for them, ends watches in their
time, wants a token, and compresses nothing. What goes wrong now and then with a
real one goes wrong here when a command says so.
"""
import base64
import copy
import json
import os
import re
import socket
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
EVENTS = "/api/v1/namespaces/default/events"


class State:
    def __init__(self):
        self.cond = threading.Condition()
        self.version = 1000
        self.oldest = 1000          # what came before is compacted
        self.nodes = {}
        self.owners = {}            # (node, annotation): manager
        self.events = []            # (version, type, object)
        self.others = {"pods": [], "services": [], "endpointslices": []}
        self.noted = {}             # Events, by name
        self.tokens = None          # None: anybody
        self.faults = []            # one for each request that it is for
        self.requests = []
        self.bookmark_s = 1.0
        self.page_max = 1000000
        self.cut = 0                # watches to end in the middle of an object
        self.end_watches = 0
        self.down = False
        self.piece = 700            # bytes to a chunk

    def put(self, node):
        name = node["metadata"]["name"]
        self.version += 1
        kind = "MODIFIED" if name in self.nodes else "ADDED"
        if name in self.nodes:
            old = self.nodes[name]["metadata"]
            node["metadata"].setdefault("uid", old["uid"])
            node["metadata"].setdefault("creationTimestamp",
                                        old["creationTimestamp"])
        else:
            node["metadata"].setdefault("uid", "uid-%s-%d" % (name,
                                                              self.version))
            node["metadata"].setdefault("creationTimestamp",
                                        "2026-01-01T00:00:00Z")
        node["metadata"]["resourceVersion"] = str(self.version)
        self.nodes[name] = node
        self.events.append((self.version, kind, copy.deepcopy(node)))
        self.cond.notify_all()

    def delete(self, name):
        self.version += 1
        node = self.nodes.pop(name)
        node["metadata"]["resourceVersion"] = str(self.version)
        self.owners = {k: v for k, v in self.owners.items() if k[0] != name}
        self.events.append((self.version, "DELETED", node))
        self.cond.notify_all()


S = State()


def make_node(name, address, cidrs=(), annotations=None, created=None,
              padding=0):
    node = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name},
                     "annotations": dict(annotations or {})},
        "spec": {},
        "status": {"addresses": [{"type": "Hostname", "address": name}],
                   "conditions": [{"type": "Ready", "status": "True",
                                   "message": "a \"quoted\" } ] \u00fc \\"}]},
    }
    for a in address.split(",") if address else []:
        node["status"]["addresses"].append({"type": "InternalIP",
                                            "address": a})
    if cidrs:
        node["spec"]["podCIDR"] = cidrs[0]
        node["spec"]["podCIDRs"] = list(cidrs)
    if created:
        node["metadata"]["creationTimestamp"] = created
    if padding:
        node["status"]["images"] = [
            {"names": ["registry/image@sha256:%064d" % i], "sizeBytes": i}
            for i in range(padding)]
    return node


class Refusal(Exception):
    def __init__(self, code, reason, message, causes=None, retry=None):
        super().__init__(message)
        self.code, self.retry = code, retry
        self.status = {"kind": "Status", "apiVersion": "v1", "metadata": {},
                       "status": "Failure", "message": message,
                       "reason": reason, "code": code}
        if causes:
            self.status["details"] = {"causes": causes}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.is_chunked = False

    def answer(self, code, doc, headers=()):
        data = json.dumps(doc).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(data)

    # Chunks begin and end anywhere in an object.
    def chunked(self, data):
        for i in range(0, len(data), S.piece):
            part = data[i:i + S.piece]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.flush()

    def begin_chunks(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def fault(self, what):
        with S.cond:
            for f in S.faults:
                if f["for"] == what:
                    f["times"] = f.get("times", 1) - 1
                    if f["times"] <= 0:
                        S.faults.remove(f)
                    return f
        return None

    def user(self):
        """The common name of the client's certificate, if it has one."""
        get = getattr(self.connection, "getpeercert", None)
        subject = (get() or {}).get("subject", ()) if get else ()
        return dict(a for rdn in subject for a in rdn).get("commonName", "")

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        q = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        auth = self.headers.get("Authorization", "")
        n = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(n)
        what = url.path.rsplit("/", 1)[1]
        if url.path.startswith(EVENTS):
            what = "event"
        elif self.command == "PATCH":
            what = "patch"
        elif q.get("watch") in ("true", "1"):
            what = "watch"
        with S.cond:
            S.requests.append({"method": self.command, "what": what,
                               "path": self.path, "auth": auth,
                               "user": self.user(),
                               "type": self.headers.get("Content-Type"),
                               "agent": self.headers.get("User-Agent"),
                               "body": body.decode()})
            if S.down:
                self.hang_up()
                return
        try:
            if S.tokens is not None and not self.user() and \
                    auth not in ["Bearer " + t for t in S.tokens]:
                raise Refusal(401, "Unauthorized", "Unauthorized")
            f = self.fault("continue") if "continue" in q else None
            f = f or self.fault(what)
            if f and f.get("hang_up"):
                self.hang_up()
                return
            if f and f.get("sleep"):
                time.sleep(f["sleep"])
                f = None
            if f and f.get("garbage"):
                self.answer(200, f["garbage"])
                return
            if f:
                raise Refusal(f["status"], "Injected",
                              f.get("message", "injected"),
                              retry=f.get("retry"))
            self.route(url.path, q, what, body)
        except Refusal as r:
            self.answer(r.code, r.status,
                        [("Retry-After", str(r.retry))] if r.retry else [])
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_PATCH = do_POST = handle_any

    def route(self, path, q, what, body):
        if path == "/api/v1/nodes" and what == "watch":
            self.watch(q)
        elif path == "/api/v1/nodes":
            self.list_nodes(q)
        elif self.command == "GET" and path.startswith("/api/v1/nodes/"):
            self.get_node(path.rsplit("/", 1)[1])
        elif what == "patch" and path.startswith("/api/v1/nodes/"):
            self.apply(path.rsplit("/", 1)[1], q, body)
        elif path == EVENTS and self.command == "POST":
            self.event_create(body)
        elif path.startswith(EVENTS + "/") and self.command == "PATCH":
            self.event_patch(path.rsplit("/", 1)[1], body)
        elif what in S.others and self.command == "GET":
            self.list_others(path, what, q)
        else:
            raise Refusal(404, "NotFound", "the server could not find the "
                                           "requested resource")

    # --- nodes

    def list_nodes(self, q):
        limit = min(int(q.get("limit", 0)) or S.page_max, S.page_max)
        with S.cond:
            after = ""
            version = S.version
            if "continue" in q:
                if "resourceVersion" in q:
                    raise Refusal(400, "BadRequest", "specifying resource "
                                  "version is not allowed when using continue")
                token = json.loads(base64.b64decode(q["continue"]))
                after, version = token["after"], token["rv"]
                if version < S.oldest:
                    raise Refusal(410, "Expired", "The provided continue "
                                  "parameter is too old")
            names = sorted(n for n in S.nodes if n > after)
            page = [S.nodes[n] for n in names[:limit]]
            meta = {"resourceVersion": str(version)}
            if len(names) > limit:
                meta["continue"] = base64.b64encode(json.dumps(
                    {"after": names[limit - 1], "rv": version}).encode()
                ).decode()
                meta["remainingItemCount"] = len(names) - limit
            data = json.dumps({"kind": "NodeList", "apiVersion": "v1",
                               "metadata": meta, "items": page}).encode()
        self.begin_chunks()
        self.chunked(data)
        self.chunked(b"\n")
        self.wfile.write(b"0\r\n\r\n")

    def get_node(self, name):
        with S.cond:
            if name not in S.nodes:
                raise Refusal(404, "NotFound", "nodes \"%s\" not found" % name)
            node = copy.deepcopy(S.nodes[name])
            managers = {}
            for (n, key), who in S.owners.items():
                if n == name:
                    managers.setdefault(who, []).append(key)
        node["metadata"]["managedFields"] = [{
            "manager": "kubelet", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {
                "f:annotations": {".": {}}}}}] + [{
                    "manager": who, "operation": "Apply", "apiVersion": "v1",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {
                        "f:annotations": {"f:" + k: {} for k in keys}}}}
                    for who, keys in managers.items()]
        self.answer(200, dict(node, kind="Node", apiVersion="v1"))

    def event(self, kind, obj):
        obj = dict(obj, kind="Node", apiVersion="v1")
        return json.dumps({"type": kind, "object": obj}).encode() + b"\n"

    def watch(self, q):
        at = int(q["resourceVersion"])
        end = time.monotonic() + int(q.get("timeoutSeconds", 1800))
        marks = q.get("allowWatchBookmarks") == "true"
        with S.cond:
            generation = S.end_watches
            old = at < S.oldest
            if at > S.version:
                raise Refusal(504, "Timeout", "Too large resource version")
        self.begin_chunks()
        if old:
            self.chunked(self.event("ERROR", {
                "code": 410, "reason": "Expired", "status": "Failure",
                "message": "too old resource version: %d" % at}))
            self.wfile.write(b"0\r\n\r\n")
            return
        mark = time.monotonic() + S.bookmark_s
        while True:
            with S.cond:
                news = [e for e in S.events if e[0] > at]
                if not news and generation == S.end_watches and not S.cut:
                    S.cond.wait(0.05)
                    news = [e for e in S.events if e[0] > at]
                cut = news and S.cut
                if cut:
                    S.cut -= 1
                over = generation != S.end_watches or S.down
                latest = S.version
            for version, kind, obj in news:
                data = self.event(kind, obj)
                if cut:
                    self.chunked(data[:len(data) // 2])
                    self.hang_up()
                    return
                self.chunked(data)
                at = version
            now = time.monotonic()
            if marks and now >= mark and not news:
                self.chunked(self.event("BOOKMARK", {
                    "metadata": {"resourceVersion": str(max(at, latest))},
                    "spec": {}, "status": {}}))
                at = max(at, latest)
                mark = now + S.bookmark_s
            if S.down:
                self.hang_up()
                return
            if over or now >= end:
                self.wfile.write(b"0\r\n\r\n")
                return

    # --- server-side apply

    def apply(self, name, q, body):
        if self.headers.get("Content-Type") != APPLY:
            raise Refusal(415, "UnsupportedMediaType", "the body of the "
                          "request was in an unknown format")
        manager, force = q.get("fieldManager"), q.get("force") == "true"
        if not manager:
            raise Refusal(422, "Invalid", "PatchOptions.meta.k8s.io \"\" is "
                          "invalid: fieldManager: Required value")
        doc = json.loads(body)
        if doc.get("kind") != "Node" or doc.get("apiVersion") != "v1" or \
                doc["metadata"].get("name") != name:
            raise Refusal(400, "BadRequest", "name or kind do not match")
        if set(doc) - {"kind", "apiVersion", "metadata"} or \
                set(doc["metadata"]) - {"name", "uid", "annotations"}:
            raise Refusal(422, "Invalid", "more than annotations")
        with S.cond:
            node = S.nodes.get(name)
            uid = doc["metadata"].get("uid")
            if node is None and uid is None:
                raise Refusal(403, "Forbidden", "may not create nodes")
            if node is None or (uid and uid != node["metadata"]["uid"]):
                raise Refusal(409, "Conflict", "uid mismatch: the provided "
                              "object specified uid %s" % uid)
            notes = doc["metadata"].get("annotations", {})
            now = node["metadata"]["annotations"]
            causes = []
            for k, v in notes.items():
                owner = S.owners.get((name, k))
                if owner and owner != manager and now.get(k) != v:
                    causes.append({
                        "reason": "FieldManagerConflict",
                        "message": "conflict with \"%s\"" % owner,
                        "field": ".metadata.annotations.%s" % k})
            if causes and not force:
                raise Refusal(409, "Conflict", "Apply failed with %d "
                              "conflict: conflict with \"%s\": %s" % (
                                  len(causes), S.owners[
                                      (name, causes[0]["field"][22:])],
                                  causes[0]["field"]), causes)
            node = copy.deepcopy(node)
            changed = False
            for k in [k for (n, k), o in S.owners.items()
                      if n == name and o == manager and k not in notes]:
                node["metadata"]["annotations"].pop(k, None)
                del S.owners[(name, k)]
                changed = True
            for k, v in notes.items():
                changed |= now.get(k) != v
                node["metadata"]["annotations"][k] = v
                S.owners[(name, k)] = manager
            if changed:
                S.put(node)
            out = S.nodes[name]
        self.answer(200, dict(out, kind="Node", apiVersion="v1"))

    # --- Events

    def event_check(self, e):
        about, meta = e.get("involvedObject", {}), e.get("metadata", {})
        rfc3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
        wrong = [w for w, bad in (
            ("metadata.name", not re.fullmatch(
                r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?",
                meta.get("name", ""))),
            # Of what has no namespace of its own.
            ("involvedObject.namespace", about.get("namespace", "") or
             meta.get("namespace") != "default"),
            ("involvedObject.name", not about.get("name")),
            ("type", e.get("type") not in ("Normal", "Warning")),
            ("reason", not 0 < len(e.get("reason", "")) <= 128),
            ("message", len(e.get("message", "")) > 1024),
            ("firstTimestamp", not re.fullmatch(
                rfc3339, e.get("firstTimestamp", ""))),
            ("lastTimestamp", not re.fullmatch(
                rfc3339, e.get("lastTimestamp", ""))),
        ) if bad]
        if wrong:
            raise Refusal(422, "Invalid", "Event is invalid: " +
                          ", ".join(wrong))

    def event_create(self, body):
        if self.headers.get("Content-Type") != "application/json":
            raise Refusal(415, "UnsupportedMediaType", "not JSON")
        e = json.loads(body)
        if e.get("kind") != "Event" or e.get("apiVersion") != "v1":
            raise Refusal(400, "BadRequest", "no Event of v1")
        self.event_check(e)
        name = e["metadata"]["name"]
        with S.cond:
            if name in S.noted:
                raise Refusal(409, "AlreadyExists", "events \"%s\" already "
                              "exists" % name)
            S.noted[name] = e
        self.answer(201, e)

    def event_patch(self, name, body):
        if self.headers.get("Content-Type") != MERGE:
            raise Refusal(415, "UnsupportedMediaType", "not a merge patch")
        with S.cond:
            if name not in S.noted:
                raise Refusal(404, "NotFound", "events \"%s\" not found" %
                              name)
            e = dict(S.noted[name], **json.loads(body))
            self.event_check(e)
            S.noted[name] = e
        self.answer(200, e)

    # --- what is only listed

    def list_others(self, path, what, q):
        def field(o, dotted):
            for k in dotted.split("."):
                o = o.get(k, {}) if isinstance(o, dict) else {}
            return o if isinstance(o, str) else ""

        with S.cond:
            items = copy.deepcopy(S.others[what])
        parts = path.split("/")
        if "namespaces" in parts:
            ns = parts[parts.index("namespaces") + 1]
            items = [o for o in items if o["metadata"]["namespace"] == ns]
        for s in filter(None, q.get("fieldSelector", "").split(",")):
            k, v = s.split("=", 1)
            if k not in ("status.podIP", "spec.clusterIP", "spec.nodeName",
                         "metadata.name", "metadata.namespace"):
                raise Refusal(400, "BadRequest", "field label not supported: "
                              + k)
            items = [o for o in items if field(o, k) == v]
        for s in filter(None, q.get("labelSelector", "").split(",")):
            k, v = s.split("=", 1)
            items = [o for o in items
                     if o["metadata"].get("labels", {}).get(k) == v]
        self.answer(200, {"kind": "List", "apiVersion": "v1", "metadata":
                          {"resourceVersion": str(S.version)},
                          "items": items})


# --- the test's side


def run(c):
    op = c.pop("op")
    with S.cond:
        if op == "node":
            S.put(make_node(**c))
        elif op == "nodes":        # many: first, count
            for i in range(c["first"], c["first"] + c["count"]):
                S.put(make_node("n%05d" % i, "10.%d.%d.%d" % (
                    100 + i // 62500, i // 250 % 250, i % 250 + 1),
                    ["172.%d.%d.%d/26" % (16 + i // 1024, i // 4 % 256,
                                          i % 4 * 64)],
                    padding=c.get("padding", 0)))
        elif op == "touch":        # heartbeats of some nodes
            for name in sorted(S.nodes)[c["first"]:c["first"] + c["count"]]:
                n = copy.deepcopy(S.nodes[name])
                n["status"]["conditions"][0]["heartbeat"] = S.version
                S.put(n)
        elif op == "annotate":
            n = copy.deepcopy(S.nodes[c["name"]])
            n["metadata"]["annotations"][c["key"]] = c["value"]
            S.owners[(c["name"], c["key"])] = c["manager"]
            S.put(n)
        elif op == "delete":
            S.delete(c["name"])
        elif op == "get":
            return S.nodes.get(c["name"])
        elif op == "compact":      # nothing before now is known
            S.oldest = S.version
            S.events = []
        elif op == "restore":      # as from a backup: versions go back
            S.version, S.oldest, S.events = c["version"], c["version"], []
        elif op == "set":
            for k, v in c.items():
                assert hasattr(S, k), k
                setattr(S, k, v)
        elif op == "others":
            S.others[c["kind"]] = c["items"]
        elif op == "fault":
            S.faults.append(c)
        elif op == "end_watches":
            S.end_watches += 1
        elif op == "requests":
            r = [x for x in S.requests if c.get("what") in (None, x["what"])]
            if c.get("clear"):
                S.requests = []
            return r
        elif op == "noted":        # the Events that there are
            r = list(S.noted.values())
            if c.get("clear"):
                S.noted = {}
            return r
        elif op == "version":
            return S.version
        else:
            raise ValueError(op)
        S.cond.notify_all()
    return "ok"


class Control(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            try:
                out = run(json.loads(line))
            except Exception as e:      # for the test to see
                out = {"error": repr(e)}
            self.wfile.write(json.dumps(out).encode() + b"\n")


class ControlServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class Api(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    tls = None

    # The handshake on the thread of its connection.
    def finish_request(self, request, client_address):
        if self.tls:
            try:
                request = self.tls.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                request.close()
                return
        super().finish_request(request, client_address)

    def shutdown_request(self, request):
        try:
            super().shutdown_request(request)
        except OSError:
            pass


def serve(address, port, control, cert=None, key=None, client_ca=None):
    api = Api((address, int(port)), Handler)
    if cert:
        api.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        api.tls.load_cert_chain(cert, key)
        if client_ca:
            api.tls.load_verify_locations(client_ca)
            api.tls.verify_mode = ssl.CERT_OPTIONAL
    threading.Thread(target=api.serve_forever, daemon=True).start()
    ControlServer(control, Control).serve_forever()


def ctl(control, text):
    s = socket.socket(socket.AF_UNIX)
    s.connect(control)
    s.sendall(json.dumps(json.loads(text)).encode() + b"\n")
    out = json.loads(s.makefile().readline())
    print(json.dumps(out))
    return 1 if isinstance(out, dict) and "error" in out else 0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    elif sys.argv[1] == "ctl":
        sys.exit(ctl(*sys.argv[2:]))
