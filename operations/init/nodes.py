"""Which nodes: found or typed, tried one after the other, mended where the owner says yes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from operations.init import find
from operations.init.ask import NO, YES, Asker
from operations.init.cables import cables
from operations.init.knock import Knock, knock, settings, user_of
from operations.init.login import EXAMPLE, PORT, Login, check_once, parse, parse_all
from operations.init.mends import mends
from operations.init.seen import Seen
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.cost import GB

#: How often a node is tried anew: each mend may uncover what the next one is for.
MOST_TRIES = 8


@dataclass(frozen=True)
class Tried:
    """`login`: as it works, or as it was tried last; `knock`: what came of it."""

    login: Login
    knock: Knock

    @property
    def seen(self) -> Seen | None:
        """None: it lets nobody in, or not enough."""
        return self.knock.seen if not self.knock.kind else None


def which(asker: Asker, named: str, user: str, before: Sequence[Login]) -> list[Login]:
    """The nodes: those that were named, those of the folder, or those that are found and chosen. Raises Refusal."""
    if named:
        known = {each.name: each for each in before}
        typed = parse_all(named, user)
        return find.addressed([_kept(known[each.name], each) if each.name in known else each for each in typed])
    if before:
        asker.say(f"Your Sparks: {', '.join(each.name for each in before)} (--nodes changes them).")
        return [replace(each, user=user or each.user) for each in before]
    asker.say("Looking for Sparks ...")
    found, note = find.found()
    for number, each in enumerate(found, 1):
        far = "at the other end of the cable" if "%" in each.name else each.address
        asker.say(f"  {number}  {each.name}  {far}".rstrip())
    if note:
        asker.say(f"  {note}")
    if not asker.is_asking:
        remedy = f"--nodes names them; {EXAMPLE}"
        if not found:
            raise Refusal(Finding("nodes", note, remedy))
        raise Refusal(Finding("nodes", "which of these, and which is the head?", remedy))

    def read(said: str) -> list[Login]:
        words = said.replace(",", " ").split()
        by_number = {str(number): each.name for number, each in enumerate(found, 1)}
        names = [by_number.get(each, each) for each in words]
        return parse_all(" ".join(names), user)

    default = ",".join(str(number) for number in range(1, len(found) + 1))
    words = "Which, the head first (numbers, names or addresses)" if found else "Names or addresses, the head first"
    return find.addressed(asker.ask(words, default, read), found)


def _kept(known: Login, typed: Login) -> Login:
    """A node of the folder with what is typed anew; its key, its address and the like stay."""
    return replace(known, user=typed.user or known.user, port=typed.port if typed.port != PORT else known.port)


def tried(
    asker: Asker, logins: Sequence[Login], is_user_given: bool, go_on: Callable[[list[Login]], None]
) -> list[Tried]:
    """Each node, tried and mended. `go_on` hears what is known so far, for whoever breaks off."""
    _check_apart(logins)
    done: list[Tried] = []
    user = ""
    for place, login in enumerate(logins):
        login = replace(login, user=login.user or user)
        found, asked = _one(asker, login, is_user_given or bool(user))
        user = user or (asked if not is_user_given else "")
        done.append(found)
        go_on([*(each.login for each in done), *logins[place + 1 :]])
    _check_different(done)
    return done


def _one(asker: Asker, login: Login, is_user_given: bool) -> tuple[Tried, str]:
    """A node; and the login's name where the owner typed one."""
    asked = last = ""
    for _ in range(MOST_TRIES):
        found = knock(login)
        if found.seen and found.seen.by_rail and found.seen.office and login.address != found.seen.office:
            # A rail's addresses are set anew by a deploy, and this machine is another one elsewhere.
            why = "itself" if found.seen.way_in == "lo" else f"over the cable ({found.seen.way_in})"
            asker.say(f"  {login.name}: reached {why}; its address on your network is {found.seen.office}")
            name = login.name if "%" not in login.name else f"{found.seen.host}.local"
            login, last = replace(login, name=name, address=found.seen.office), ""
            continue
        if not found.kind:
            asker.say(f"  {login.name}: ok{_told(found.seen)}")
            return Tried(login, found), asked
        asker.say(f"  {found}" if not asker.is_asking else f"  {login.name} {found.problem}")
        if found.kind == "login" and not is_user_given and asker.is_asking and not asked:
            asked = asker.ask(f"  Your login on {login.name}", user_of(login), partial(_login_name, login))
            if asked != user_of(login):
                login = replace(login, user=asked)
                continue
        if found.kind == last or not _mended(asker, found):
            break
        last = found.kind
    return Tried(login, found), asked


def _login_name(login: Login, said: str) -> str:
    """A login's name. Raises Refusal, also for the answer to a question of yes or no: those stand around this one."""
    if said.lower() in (*YES, *NO) and said != user_of(login):
        remedy = f"type the name with which you log in there; where it is that, name the node `{said}@{login.name}`"
        raise Refusal(Finding("login", f"`{said}` is no login's name", remedy))
    return parse(f"{said}@x").user


def _told(seen: Seen | None) -> str:
    if seen is None:
        return ""
    product = f"{seen.product}, " if seen.product else ""
    return f" ({product}{seen.memory_gib:.0f} GiB of memory, {seen.disk_gib * GB:.0f} GB of disk free)"


def _mended(asker: Asker, found: Knock) -> bool:
    """Whether all that could help was wanted, and has worked; what can't be run here is shown."""
    todo = mends(found)
    if not todo and asker.is_asking:
        asker.say(f"    {found.remedy}")
    for mend in todo:
        asker.say(f"    to {mend.what}:")
        for line in (*mend.shown, f"$ {mend.command}"):
            asker.say(f"      {line}")
        if not asker.yes("    Run it"):
            return False
        if not mend.run():
            asker.say("    it has failed; what it said is above")
            return False
    return bool(todo)


def _check_apart(logins: Sequence[Login]) -> None:
    """Raises Refusal where two names have one address: as far as that can be seen before the first is asked."""
    seen: dict[tuple[str, str], str] = {}
    for each in logins:
        by_ssh = settings(each)
        # Behind another host a name is that host's to resolve.
        if any(by_ssh.get(each, "none") != "none" for each in ("proxyjump", "proxycommand")):
            continue
        at = find.address_of(by_ssh.get("hostname", each.host)), by_ssh.get("port", str(each.port))
        if at[0] and at in seen:
            problem = f"`{seen[at]}` and `{each.name}` have one address, {at[0]}"
            raise Refusal(Finding("nodes", problem, "name each Spark once, the head first"))
        seen[at] = each.name


def _check_different(done: Sequence[Tried]) -> None:
    check_once([each.login for each in done])
    machines: dict[str, str] = {}
    for each in done:
        machine = each.seen.machine if each.seen else ""
        if machine and machine in machines:
            problem = f"{machines[machine]} and {each.login.name} are one machine (the same /etc/machine-id)"
            remedy = "name each Spark once; of a cloned disk: sudo rm /etc/machine-id, sudo systemd-machine-id-setup"
            raise Refusal(Finding("nodes", problem, remedy))
        machines[machine] = each.login.name


def wiring(done: Sequence[Tried]) -> list[str]:
    """Which cable goes where, of the nodes that let us in."""
    known = [(each.login.name, each.seen) for each in done if each.seen]
    return cables([(name, seen) for name, seen in known if seen]) if len(known) == len(done) else []
