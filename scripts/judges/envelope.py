"""Judges a Sigstore bundle by its DSSE envelope (securesystemslib) and its in-toto
statement (in_toto_attestation).

usage: envelope.py PUBLIC_KEY BUNDLE   (prints the statement; an exception: it does not hold)
"""
import json
import sys

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

with open(sys.argv[1], "rb") as f:
    key = SSlibKey.from_crypto(load_pem_public_key(f.read()))
with open(sys.argv[2], encoding="utf-8") as f:
    raw = json.load(f)["dsseEnvelope"]
# In DSSE a key id is a hint and may be empty; this library wants it to be the key's.
raw["signatures"] = [{**s, "keyid": key.keyid} for s in raw["signatures"]]
envelope = Envelope.from_dict(raw)
envelope.verify([key], 1)
message = statement_pb2.Statement()
json_format.Parse(envelope.payload, message)
Statement.copy_from_pb(message).validate()
print(envelope.payload.decode())
