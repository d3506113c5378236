"""Fills real S3 servers with the objects of testdata/reports, and says what they answer. It speaks S3 through botocore only.

usage: bucket.py content CASE FOLDER                        writes the source's objects as files
       bucket.py put CASE VARIANT ENDPOINT BUCKET PREFIX DISK   uploads the objects of a variant (or of "source") as the case describes, below PREFIX;
                                                            DISK is the bucket's folder, for what S3 cannot set: times, and no checksum

An object's name is the last part of its key in the case: they lie as extra files in the folder case/ of a sound model, as the bytes
are no real weights or configs, and a release that does not boot would be red for that alone.

Every value that a case names is compared with what the server says afterwards, so a server that cannot hold a case is an error.
"""

import base64, hashlib, os, sys, zlib

import botocore.session, yaml
from botocore.config import Config


def client(endpoint):
    config = Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required", response_checksum_validation="when_required")
    return botocore.session.get_session().create_client("s3", endpoint_url=endpoint, region_name=os.environ.get("AWS_DEFAULT_REGION"), config=config)


def load(case):
    with open(os.path.join(case, "objects.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(f)


def content(case, spec):
    """The bytes of one object; testdata/reports/README.md has the recipe."""
    if "file" in spec:
        with open(os.path.join(case, spec["file"]), "rb") as f:
            return f.read()
    blocks = (hashlib.sha256(f"{spec['seed']}:{i}".encode()).digest() for i in range(spec["size"] // 32 + 1))
    data = bytearray(b"".join(blocks)[: spec["size"]])
    if "flip" in spec:
        data[spec["flip"]] ^= 1
    return bytes(data)


def name(o):
    return o["key"].split("/", 1)[1]


def write(case, folder):
    d = load(case)
    truth = {m["path"]: m["sha256"] for m in d["manifest"]}
    os.makedirs(folder, exist_ok=True)
    for o in d["source"]:
        data = content(case, o["content"])
        assert hashlib.sha256(data).hexdigest() == truth[o["key"]], f"{o['key']}: not the bytes that the case names"
        with open(os.path.join(folder, name(o)), "wb") as f:
            f.write(data)


def crc32(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def upload_parts(s3, bucket, key, parts, algorithm=None, kind=None, value=None):
    """A multipart upload; algorithm CRC32 or CRC64NVME, kind FULL_OBJECT or COMPOSITE, value the whole object's checksum."""
    asked = {"ChecksumAlgorithm": algorithm, "ChecksumType": kind} if algorithm else {}
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **asked)["UploadId"]
    done = []
    for number, data in enumerate(parts, 1):
        sums = {"ChecksumCRC32": crc32(data)} if algorithm == "CRC32" else {}
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data, **sums)
        done.append({"PartNumber": number, "ETag": answer["ETag"], **{k: v for k, v in answer.items() if k.startswith("Checksum")}})
    whole = {"ChecksumType": kind} if kind else {}
    if kind == "FULL_OBJECT":
        whole["Checksum" + algorithm] = value
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": done}, **whole)


def put_object(s3, bucket, key, o, data):
    sums = {k.upper(): v for k, v in o.get("checksums", {}).items()}
    algorithm = next(iter(sums), None)
    if "parts" not in o:
        s3.put_object(Bucket=bucket, Key=key, Body=data)
        return
    parts, at = [], 0
    for size in o["parts"]:
        parts.append(data[at : at + size])
        at += size
    upload_parts(s3, bucket, key, parts, algorithm, o.get("checksum_type"), sums.get(algorithm))


def compare(s3, bucket, key, o):
    """What the case says HEAD answers must be what it answers."""
    head = s3.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    want = {"ETag": o["etag"], **{"Checksum" + k.upper(): v for k, v in o.get("checksums", {}).items()}}
    for name, value in want.items():
        assert head.get(name) == value, f"{key}: {name} is {head.get(name)}, the case says {value}"
    if "parts" in o and not o.get("checksums"):
        stored = [k for k in head if k.startswith("Checksum") and k != "ChecksumType"]
        assert not stored, f"{key}: the server stored {stored}, the case says no checksum"


def put(case, variant, endpoint, bucket, prefix, disk):
    d, s3 = load(case), client(endpoint)
    for o in d["source"] if variant == "source" else d["variants"][variant]:
        key = prefix + name(o)
        put_object(s3, bucket, key, o, content(case, o["content"]))
        if "parts" in o and not o.get("checksums"):  # as from before servers made one unasked
            os.removexattr(os.path.join(disk, key), "user.checksums")
        compare(s3, bucket, key, o)
        if "last_modified" in o:
            when = o["last_modified"].timestamp()
            os.utime(os.path.join(disk, key), (when, when))
            shown = s3.head_object(Bucket=bucket, Key=key)["LastModified"].timestamp()
            assert shown == when, f"{key}: last modified {shown}, the case says {when}"


{"content": write, "put": put}[sys.argv[1]](*sys.argv[2:])
