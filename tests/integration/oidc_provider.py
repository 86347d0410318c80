"""An OpenID Connect provider for tests: code flow with PKCE, device grant, keys that change, and answers that are wrong on purpose.

Signatures are made by the program openssl.
"""

import base64
import hashlib
import hmac
import http.server
import json
import pathlib
import secrets
import subprocess
import threading
import time
import urllib.parse


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments, data=b""):
    return subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=True).stdout


class Key:
    """An RSA key or one on P-256, with the id under which the provider publishes it."""

    def __init__(self, folder, name, kind="RS256"):
        self.name, self.kind, self.file = name, kind, pathlib.Path(folder) / f"{name}.pem"
        if kind == "RS256":
            openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.file)
            modulus = openssl("rsa", "-in", self.file, "-noout", "-modulus").decode().strip().split("=")[1]
            self.public = {"kty": "RSA", "kid": name, "use": "sig", "alg": "RS256", "n": base64url(bytes.fromhex(modulus)), "e": "AQAB"}
        else:
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.file)
            point = openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER")[-64:]
            self.public = {"kty": "EC", "kid": name, "use": "sig", "crv": "P-256", "x": base64url(point[:32]), "y": base64url(point[32:])}

    def sign(self, text):
        signature = openssl("dgst", "-sha256", "-sign", self.file, data=text.encode())
        if self.kind == "RS256":
            return signature
        # Two numbers in DER, each after its tag and length.
        first = signature[4:4 + signature[3]]
        second = signature[6 + signature[3]:]
        return b"".join(number.lstrip(b"\0").rjust(32, b"\0") for number in (first, second))


class Provider:
    """Serves on a free port of this machine until close(). Attributes may be changed at any time."""

    def __init__(self, folder, client="volador", secret="the secret of the client"):
        self.client, self.secret = client, secret
        self.folder = folder
        self.key = Key(folder, "first")
        self.published = [self.key]
        self.person = {}          # Claims of the person who is signed in at the provider.
        self.in_user_info = {}    # Claims that only the user info has.
        self.change = lambda claims: None          # Changes the claims of the next ID tokens.
        self.make_token = self.signed              # From claims.
        self.codes, self.devices, self.requests = {}, {}, []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def rotate(self, name, kind="RS256"):
        """A new key, beside which the old one is not published any more."""
        self.key = Key(self.folder, name, kind)
        self.published = [self.key]

    def signed(self, claims):
        return self.compact({"alg": self.key.kind, "kid": self.key.name}, claims, self.key.sign)

    def unsigned(self, claims):
        return self.compact({"alg": "none"}, claims, lambda text: b"")

    def symmetric(self, claims):
        """The public key as the secret of HS256."""
        secret = json.dumps(self.key.public).encode()
        return self.compact({"alg": "HS256", "kid": self.key.name}, claims, lambda text: hmac.new(secret, text.encode(), hashlib.sha256).digest())

    @staticmethod
    def compact(header, claims, sign):
        text = base64url(json.dumps(header).encode()) + "." + base64url(json.dumps(claims).encode())
        return text + "." + base64url(sign(text))

    def id_token(self, nonce):
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": self.client, "iat": now, "exp": now + 300, **self.person}
        if nonce:
            claims["nonce"] = nonce
        self.change(claims)
        return self.make_token(claims)

    def discovery(self):
        return {"issuer": self.issuer, "authorization_endpoint": self.issuer + "/authorize", "token_endpoint": self.issuer + "/token",
                "jwks_uri": self.issuer + "/keys", "userinfo_endpoint": self.issuer + "/userinfo",
                "device_authorization_endpoint": self.issuer + "/device", "token_endpoint_auth_methods_supported": ["client_secret_basic"]}

    def authorize(self, query):
        """Where the browser of a person who is signed in goes next."""
        assert query["response_type"] == "code" and query["client_id"] == self.client and query["code_challenge_method"] == "S256", query
        assert "openid" in query["scope"].split(), query
        code = secrets.token_hex(16)
        self.codes[code] = query
        return query["redirect_uri"] + "?" + urllib.parse.urlencode({"code": code, "state": query["state"], "iss": self.issuer})

    def token(self, authorization, form):
        """Status and body."""
        expected = base64.b64encode(f"{self.client}:{urllib.parse.quote(self.secret, safe='')}".encode()).decode()
        if authorization != "Basic " + expected:
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "urn:ietf:params:oauth:grant-type:device_code":
            state = self.devices.get(form["device_code"])
            if state != "approved":
                return 400, {"error": {"waits": "authorization_pending", "denied": "access_denied"}.get(state, "expired_token")}
            del self.devices[form["device_code"]]
            return 200, self.tokens("")
        asked = self.codes.pop(form["code"], None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "the code is unknown or used"}
        if base64url(hashlib.sha256(form["code_verifier"].encode()).digest()) != asked["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "the verifier is wrong"}
        return 200, self.tokens(asked["nonce"])

    def tokens(self, nonce):
        return {"id_token": self.id_token(nonce), "access_token": "access", "token_type": "Bearer"}

    def device(self):
        code = secrets.token_hex(16)
        self.devices[code] = "waits"
        return {"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": self.issuer + "/verify", "expires_in": 300, "interval": 1}

    def handler(self):
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                address = urllib.parse.urlparse(self.path)
                provider.requests.append(address.path)
                if address.path == "/.well-known/openid-configuration":
                    return self.give(200, provider.discovery())
                if address.path == "/keys":
                    return self.give(200, {"keys": [key.public for key in provider.published]})
                if address.path == "/userinfo":
                    assert self.headers["Authorization"] == "Bearer access"
                    return self.give(200, {"sub": provider.person["sub"], **provider.in_user_info})
                if address.path == "/authorize":
                    self.send_response(302)
                    self.send_header("Location", provider.authorize(dict(urllib.parse.parse_qsl(address.query))))
                    self.end_headers()
                    return None
                return self.give(404, {})

            def do_POST(self):
                provider.requests.append(self.path)
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                if self.path == "/token":
                    return self.give(*provider.token(self.headers["Authorization"], form))
                if self.path == "/device":
                    return self.give(200, provider.device())
                return self.give(404, {})

            def give(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        return Handler
