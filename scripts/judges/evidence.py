"""Judges drkit's evidence without drkit: recomputes the verdict of each evidence.json
from its steps, gates, proofs, changes and clock, by the rules of docs/evidence.md,
and holds the journal and the ledger against it. Of several evidences it also says which
approval more than one of them counts. Python 3.9 or newer, nothing else.

usage: evidence.py EVIDENCE... [--journal FILE] [--ledger FOLDER] [--head SHA256]

A journal.jsonl beside the evidence is taken by itself. Prints what it checked and
the recomputed verdict. Exit status 0: all of it holds; 6: it does not, and why.
"""
import argparse
import base64
import calendar
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ZEROS = "0" * 64
LADDER = ["declared", "capacity", "image", "weights", "engine-ready", "canary-verified", "cutover", "steady"]
TYPED = "typed by the operator, not authenticated"
NEEDS = [("boot", "engine"), ("behaviour", "engine"), ("router", "router")]
LIVE = ("planned", "emergency", "failback")
LONGEST = 30 * 24 * 3600 * 10**9  # an approval may hold that long
LAG = 300 * 10**9  # clocks of two machines, or weighing and journaling, may lie that far apart
# What people did after the end: the outcome is not touched by it.
AFTER_THE_END = ("change.adopted", "run.taking-back", "change.undone", "change.kept")
faults = []
used = {}  # the run that counts it, by the record of an approval


def fault(where, what):
    faults.append(f"{where}: {what}")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def once(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"a name stands twice among {sorted(k for k, _ in pairs)}")
    return dict(pairs)


def no_number(text):
    raise ValueError(f"{text} is no number of JSON")


def parsed(raw):
    """What JSON's specification leaves to readers is no evidence: names that stand twice, NaN, a byte order mark."""
    return json.loads(raw.decode(), object_pairs_hook=once, parse_constant=no_number)


def own_sum(where, raw, said):
    field = b'"sum": "' + str(said).encode() + b'"'
    if field not in raw or sha256(raw.replace(field, b'"sum": "' + ZEROS.encode() + b'"', 1)) != said:
        fault(where, "its bytes are not those that its own sum was made of")


def red(e):
    """The statuses that the red gates stand for; 0 stands for 4."""
    return [g["status"] or 4 for g in e["gates"] if g["result"] == "failed"]


def all_passed(gates):
    return bool(gates) and all(g["result"] == "passed" for g in gates)


def tabletop(e):
    return e["mode"] == "tabletop"


def refused(e):
    """The classes of traffic that the target may not answer."""
    return [c for c in e.get("classes", []) if not c["lawful_target"]]


def proven(e, name):
    """A proof holds when every step that speaks of it claims it, and its gates passed."""
    if tabletop(e):
        return False
    said = [p for p in e["proofs"] if p["name"] == name]
    for p in said:
        lists = [[g for g in e["gates"] if g["id"] == i] for i in p["gates"]] or [[g for g in e["gates"] if g["step"] == p["step"]]]
        if not p["claimed"] or not all(all_passed(gates) for gates in lists):
            return False
    return bool(said)


def by_key(a):
    return None not in (a["key_id"], a["ledger_record"], a["sha256"])


def unapproved(e):
    """1 when production may be moved and too few people approved that, else 0."""
    if e["mode"] not in LIVE:
        return 0
    all_of = e["approvers"] or []
    if e["mode"] == "emergency" and any(a["method"] == TYPED and a["self_attested"] for a in all_of):
        return 0
    people = {a["id"] for a in all_of if a["method"] != TYPED and by_key(a)}
    return int(len(people) < max(e.get("consent", {}).get("required", 1), 1))


def unearned(e):
    return unproven(e) + substitutes(e) + len(refused(e)) + unapproved(e)


def unproven(e):
    must = e["objectives"]["must_prove"]
    return 1 if not must else sum(not proven(e, name) for name in must)


def substitutes(e):
    """drkit's own parts in a run that is no demo, and parts that are not named."""
    count = sum(1 for c in e["components"] if c.get("substitute") and e["kind"] != "demo")
    roles = {c["role"] for c in e["components"]}
    for proof, role in NEEDS:
        if role not in roles and proven(e, proof):
            roles.add(role)
            count += 1
    return count


def wall(text):
    """A time of day in nanoseconds since 1970: 2026-01-02T03:04:05.678901234Z."""
    day, _, part = text.removesuffix("Z").partition(".")
    return calendar.timegm(time.strptime(day, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(part.ljust(9, "0") or 0)


def between(a, b):
    """Nanoseconds from one instant to another: across processes by the machine's clock."""
    if a["process"] == b["process"]:
        return b["mono_ns"] - a["mono_ns"]
    return wall(b["wall"]) - wall(a["wall"])


def rto(e):
    """Nanoseconds from declared to steady; None when the clock does not give them."""
    at = {i["name"]: i for i in e["clock"]["instants"]}
    reached = [at[name] for name in LADDER if name in at]
    if "declared" not in at or "steady" not in at or any(between(a, b) < 0 for a, b in zip(reached, reached[1:])):
        return None
    took = between(at["declared"], at["steady"])
    return took if took >= 0 else None


def late(e):
    took = rto(e)
    return [5] if took is not None and 0 < e["objectives"]["rto_ns"] < took else []


def gaps(e):
    count = sum(s["result"] != "passed" for s in e["steps"]) + (not e["steps"])
    count += sum(g["result"] not in ("passed", "failed") for g in e["gates"])
    if tabletop(e):
        return [4] * (count + 1)
    count += unearned(e) + (rto(e) is None) + (e["objectives"]["rto_ns"] <= 0)
    return [4] * count


def left(e):
    return [c for c in e["cleanup"]["changes"] if not c["undone"] and not c.get("adopted") and not c.get("kept")]


def failed_step(e, s):
    """What a failed step stands for; None when a red gate of its own says it already."""
    own = [g for g in e["gates"] if g["step"] == s["id"] and g["result"] == "failed"]
    if any(s["status"] in (4, g["status"]) for g in own):
        return None
    if s["status"] in (0, 3):
        return 4
    return 1 if s["status"] == 8 and not left(e) else s["status"]


def untouched(e, step):
    clock = any(i["name"] == "declared" for i in e["clock"]["instants"])
    return not clock and not red(e) and all(c["step"] == step for c in e["cleanup"]["changes"])


def judge(e):
    cut = e["outcome"]["cut_short"]
    if cut:
        return "aborted", [143 if cut.get("signal") == "terminated" else 130]
    if e["problems"]:
        return "refused", [3]
    failed = [s for s in e["steps"] if s["result"] == "failed"]
    if failed:
        if failed[0]["status"] == 3 and untouched(e, failed[0]["id"]):
            return "refused", [3]
        why = red(e) + [x for x in (failed_step(e, s) for s in failed) if x is not None]
        if 4 in why:
            return "not-recovered", why
        if any(x != 5 for x in why):
            return "incomplete", why
        lacking = [4] * unearned(e)
        return ("incomplete" if lacking else "objective-missed"), why + lacking
    why = red(e)
    if 4 in why:
        return "not-recovered", why + gaps(e)
    missing = gaps(e) + [x for x in why if x != 5]
    if missing:
        return "incomplete", missing + why + late(e)
    missed = why + late(e)
    return ("objective-missed" if missed else "recovered"), missed


def verdict(e):
    word, why = judge(e)
    if left(e):
        why = why + [8]
        if word in ("recovered", "objective-missed", "refused"):
            word = "incomplete"
    if e.get("without_ledger") and word != "refused":
        why = why + [6]
        if word in ("recovered", "objective-missed"):
            word = "incomplete"
    for status in (8, 6, 4, 5, 1, 7):
        if status in why:
            return word, status
    return word, next((x for x in why if x), 0)


def nulls(doc, field="", pattern=""):
    """Each null with no reason beside it."""
    items = doc.items() if isinstance(doc, dict) else enumerate(doc) if isinstance(doc, list) else ()
    for key, value in items:
        at, like = f"{field}/{key}", f"{pattern}/{'*' if isinstance(doc, list) else key}"
        if value is None and not (isinstance(doc, dict) and doc.get("why")):
            yield at, like
        yield from nulls(value, at, like)


def check_evidence(raw, e):
    own_sum("evidence", raw, e["sum"])
    known = {u["field"] for u in e["unknown"] if u["reason"]}
    for at, like in nulls(e):
        if at not in known and like not in known:
            fault(f"evidence {at}", "it is null, and nothing says why")
    if e["outcome"] is None:
        fault("evidence /outcome", "the run has no end")
        return
    word, status = verdict(e)
    print(f"recomputed verdict: {word} (status {status})")
    if (word, status) != (e["outcome"]["verdict"], e["outcome"]["status"]):
        fault("evidence /outcome", f"it says {e['outcome']['verdict']} ({e['outcome']['status']})")
    check_approvers(e)
    state = "incomplete" if left(e) else "verified" if e["cleanup"]["changes"] else "nothing-changed"
    if state != e["cleanup"]["status"]:
        fault("evidence /cleanup/status", f"it says {e['cleanup']['status']}, and its changes say {state}")
    took, said = rto(e), e["measured"]["rto"]["value"]
    if (took is None) != (said is None) or took is not None and abs(took / 1e9 - said) > 0.0006:
        fault("evidence /measured/rto/value", f"it says {said}, and the clock says {took} ns")


def check_approvers(e):
    """What no key proves says so, and the plan named everybody else."""
    consent = e.get("consent")
    for i, a in enumerate(e["approvers"] or []):
        typed = a["self_attested"] and a["method"] == TYPED
        if typed:
            continue
        where = f"evidence /approvers/{i}"
        if not by_key(a):
            fault(where, "nothing proves it, and it does not say that it is the operator's own")
        elif consent and not may_approve(consent, a["id"], a["key_id"]):
            fault(where, "the plan did not name this person and key")
        elif consent and a["self_attested"] and not consent["self_approval"]:
            fault(where, "it is the operator's own, and the plan refuses those")


def may_approve(consent, name, key_id):
    return {"name": name, "key_id": key_id} in consent.get("people", [])


def key_id(line):
    """A public key on one line, as ssh-keygen -l prints it. With a second line or options
    before the key, ssh-keygen would be asked about another key than the one named here."""
    key = re.fullmatch(r"[a-z0-9@.-]+ ([A-Za-z0-9+/]+=*)", line)
    if not key:
        raise ValueError(f"{line[:80]!r} is no public key as drkit writes it")
    raw = base64.b64decode(key[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def signed(statement, word):
    """Whether OpenSSH proves a signature; None where it is not there."""
    key_id(word["key"])
    if not shutil.which("ssh-keygen"):
        return None
    with tempfile.TemporaryDirectory() as d:
        for name, text in (("sig", word["signature"]), ("allowed", f"x {word['key']}\n")):
            with open(os.path.join(d, name), "w", encoding="utf-8") as f:
                f.write(text)
        message = (json.dumps(statement, indent=2, ensure_ascii=False) + "\n").encode()
        args = ["ssh-keygen", "-Y", "verify", "-f", f"{d}/allowed", "-I", "x", "-n", "drkit-approval", "-s", f"{d}/sig"]
        return not subprocess.run(args, input=message, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


def was_refused(records, run):
    ends = [r["closed"]["verdict"] for r in records if r["kind"] == "closed" and r["run"] == run]
    return bool(ends) and ends[-1] == "refused"


def spent(records, digests, e, a, statement):
    """What the ledger by itself holds against an approval of this run; None: nothing."""
    after = statement.get("after")
    if after and after not in [d for seq, d in digests.items() if seq < a["ledger_record"]]:
        return "it was given in another ledger"
    for r in records:
        if r["seq"] < a["ledger_record"] and r["kind"] == "approved" and r["approved"]["statement"]["id"] == statement["id"]:
            return f"it is record {r['seq']} again: replayed"
    for r in records if not statement["run"] else []:
        if r["kind"] != "opened" or r["opened"]["plan_hash"] != statement["plan_hash"]:
            continue
        if r["run"] == e["run_id"]:
            return "it was given after the run began, and does not name it" if r["seq"] < a["ledger_record"] else None
        if r["seq"] > a["ledger_record"] and not was_refused(records, r["run"]):
            return f"run {r['run']} took it"
    return None


def meant(records, back, seq, statement):
    """Whether a revocation takes the approval in record seq back: the one that it names, and
    what the same person had given for the same plan and run until then."""
    named = back["revoked"]["statement"]["approval"]
    if named == statement["id"]:
        return True
    for r in records:
        if r["kind"] == "approved" and r["approved"]["statement"]["id"] == named:
            first = r["approved"]["statement"]
            same = all(first[x] == statement[x] for x in ("approver", "plan_hash"))
            return same and seq < back["seq"] and (first["run"] == statement["run"] or "" in (first["run"], statement["run"]))
    return False


def taken_back(records, e, a, statement):
    """Who took an approval back before the run counted it; None: nobody."""
    opened = next((r["seq"] for r in records if r["kind"] == "opened" and r["run"] == e["run_id"]), 0)
    for r in records:
        if r["kind"] != "revoked" or not meant(records, r, a["ledger_record"], statement):
            continue
        s = r["revoked"]["statement"]
        try:
            of = key_id(r["revoked"]["key"])
        except ValueError:
            continue  # nobody's key: it takes nothing back
        if (s["by"], of) != (a["id"], a["key_id"]) and not may_approve(e.get("consent", {}), s["by"], of):
            continue
        proven_by = signed(s, r["revoked"])
        if proven_by is False:
            continue
        if r["seq"] <= max(a.get("as_of", 0), opened):
            return f"{s['by']} took it back, in record {r['seq']}"
        print(f"ledger record {r['seq']}: takes back the approval by {a['id']} after the run had counted it, which changes nothing")
        return None
    return None


def dated(e, statement):
    """What the times of an approval hold against a run that began and ended when it did."""
    began, ended = wall(e["clock"]["began"]), wall(e["clock"]["ended"] or e["clock"]["began"])
    at, expires = wall(statement["at"]), wall(statement["expires"])
    if at > ended + LAG:
        return "it is dated after the run"
    if expires - at > LONGEST:
        return "it was given for too long"
    return "it had expired before the run began" if began - LAG >= expires else None


def check_used(e):
    """Which approval another of the evidences counts too, as far as they say it alone."""
    for a in e["approvers"] or []:
        if e["outcome"] and e["outcome"]["verdict"] != "refused" and by_key(a):
            run = used.setdefault(a["sha256"], e["run_id"])
            if run != e["run_id"]:
                fault(f"ledger record {a['ledger_record']}", f"the evidence counts the approval by {a['id']}, which run {run} counts too")


def check_approval(e, a, records, digests):
    """Holds an approver against the ledger's record; OpenSSH, where it is there, proves the signature."""
    where = f"ledger record {a['ledger_record']}"
    r = next((r for r in records if r["seq"] == a["ledger_record"]), None)
    if not r or r["kind"] != "approved" or digests[r["seq"]] != a["sha256"]:
        fault(where, f"it is not the approval by {a['id']} that the evidence counts")
        return
    s = r["approved"]["statement"]
    if s["plan_hash"] != e["plan"]["sha256"] or s["service"] != e["service"] or s["run"] not in ("", e["run_id"]) or s["approver"] != a["id"] or key_id(r["approved"]["key"]) != a["key_id"]:
        fault(where, "it approves another plan or run, or is another's")
    elif e["outcome"] and e["outcome"]["verdict"] != "refused":
        why = dated(e, s) or spent(records, digests, e, a, s) or taken_back(records, e, a, s)
        if why:
            fault(where, f"the evidence counts the approval by {a['id']}, which does not count: {why}")
        elif used.setdefault(s["id"], e["run_id"]) != e["run_id"]:
            fault(where, f"the evidence counts the approval by {a['id']}, which run {used[s['id']]} counts too")
    held = signed(s, r["approved"])
    if held is None:
        print(f"approval by {a['id']}: signature not checked, ssh-keygen is not here")
    elif held:
        print(f"approval by {a['id']}: ssh-keygen proves the signature")
    else:
        fault(where, f"the signature of {a['id']} does not hold")


def check_journal(raw, e):
    if (sha256(raw), len(raw)) != (e["journal"]["sha256"], e["journal"]["bytes"]):
        fault("journal", "its bytes are not those that the evidence was made from")
    before, last, end = "", {}, {}
    for n, line in enumerate(raw.splitlines(keepends=True), 1):
        last = parsed(line)
        if not (end.get("type") == "run.finished" and last.get("type") in AFTER_THE_END):
            end = last
        if last.get("prev", "") != before:
            fault(f"journal line {n}", f"it does not follow the line before it: line {max(n - 1, 1)} or this one was changed")
            return
        if (last["run"], last["seq"]) != (e["run_id"], n):
            fault(f"journal line {n}", "it is not this run's event of that number")
        before = sha256(line)
    kind, end = end.get("type"), end.get("data", {})
    if kind != "run.finished" or (end["verdict"], end["status"]) != (e["outcome"]["verdict"], e["outcome"]["status"]):
        fault("journal", "its end is not the outcome of the evidence")


def check_ledger(folder, e, raw, head):
    before, records, digests, everything = ZEROS, [], {}, []
    for n, name in enumerate(sorted(f for f in os.listdir(folder) if re.fullmatch(r"\d{10}\.json", f)), 1):
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        r = parsed(data)
        own_sum(f"ledger {name}", data, r["sum"])
        if name != f"{n:010d}.json" or r["seq"] != n:
            fault(f"ledger {name}", f"record {n} is expected here")
        if r["previous"] != before:
            fault(f"ledger {name}", "it does not follow the record before it")
        before = sha256(data)
        digests[r["seq"]] = before
        everything.append(r)
        if r["run"] == e["run_id"]:
            records.append((before, r))
    if head and head.removeprefix("sha256:") not in digests.values():
        fault("ledger", "it does not hold the record with the given SHA-256: its end was cut off")
    for a in e["approvers"] or []:
        if a["ledger_record"]:
            check_approval(e, a, everything, digests)
    opened = [(h, r) for h, r in records if r["kind"] == "opened"]
    closed = [r for _, r in records if r["kind"] == "closed"]
    if len(opened) != 1 or not e["ledger"] or opened[0][0] != e["ledger"]["sha256"] or opened[0][1]["seq"] != e["ledger"]["record"]:
        fault("ledger", "it did not announce this run as the evidence says")
    if not closed or not closed[-1]["closed"]["evidence"]:
        fault("ledger", "no record closes this run with evidence")
        return
    c = closed[-1]["closed"]
    if c["evidence"]["sha256"] != sha256(raw) or c["journal"]["sha256"] != e["journal"]["sha256"]:
        fault(f"ledger record {closed[-1]['seq']}", "it sealed other bytes")
    print(f"ledger: {len(everything)} records, head sha256:{before}, end {'pinned' if head else 'unanchored as far as this program sees'}")


def holds(path, a):
    faults.clear()
    with open(path, "rb") as f:
        raw = f.read()
    try:
        e = parsed(raw)
        if not str(e["schema"]).startswith("drkit.evidence/1."):
            raise ValueError(f"its schema is {e['schema']}")
        check_evidence(raw, e)
        beside = os.path.join(os.path.dirname(os.path.abspath(path)), "journal.jsonl")
        if a.journal or os.path.exists(beside):
            with open(a.journal or beside, "rb") as f:
                check_journal(f.read(), e)
        if a.ledger:
            check_ledger(a.ledger, e, raw, a.head)
        else:
            check_used(e)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError) as err:
        fault("input", f"it cannot be read: {err!r}")
    for f in faults:
        print("FAULT", f)
    print("the evidence holds" if not faults else "the evidence does not hold")
    return not faults


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("evidence", nargs="+")
    p.add_argument("--journal")
    p.add_argument("--ledger")
    p.add_argument("--head")
    a = p.parse_args()
    if a.journal and len(a.evidence) > 1:
        p.error("--journal is for one evidence")
    bad = 0
    for path in a.evidence:
        if len(a.evidence) > 1:
            print(path)
        bad += not holds(path, a)
    return 6 if bad else 0


sys.exit(main())
