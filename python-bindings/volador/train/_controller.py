"""Runs a training function on ranks: carries out the actions of the elastic policy, and feeds it with what happens."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import json
import os
import queue
import re
import shutil
import tempfile
import threading
from typing import TYPE_CHECKING, Any

import volador
from volador import _core, _html, _values
from volador.exceptions import ActorDiedError, CancelledError, InfeasibleError, InvalidArgumentError, UnavailableError, VoladorError
from volador.train import _rank, _session, _store
from volador.tune import Checkpoint, _trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from volador.train._progress import Watch

_STATUS_SECONDS = 2.0  # Limit for a rank to answer what it does.
_POLL_SECONDS = 0.5  # Between two looks whether a user asked the run to stop.
_PARTS_MAX = 256  # Of files on their way to a rank.
_SHOWN_MAX = 10  # Checkpoints in a notebook.
_FRUITLESS_MAX = 3  # Groups in a row whose collectives fail although no worker was lost.


@dataclasses.dataclass(frozen=True)
class Options:
    """Of TorchTrainer, checked."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    config: dict[str, Any]
    min_workers: int
    max_workers: int
    resources: dict[str, Any]  # num_cpus, num_gpus, memory, resources
    strategy: str
    name: str
    storage: str
    metric: str
    mode: str
    checkpoints_kept: int | None
    checkpoint_score: str | None
    max_failures: int
    retry_user_errors: bool
    backend: str
    env: dict[str, str]
    start_timeout: float
    hang_timeout: float
    collective_timeout: float
    resume_from: Checkpoint | None


@dataclasses.dataclass
class Result:
    """What a run left."""

    metrics: dict[str, Any]  # Of the last report.
    checkpoint: Checkpoint | None  # The last complete one.
    best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]]  # Those that are kept, oldest first, with their metrics.
    path: str  # Folder of the results.
    failures: int = 0  # Workers that were lost.

    def _repr_html_(self) -> str:
        metrics = [_html.Row([name, value]) for name, value in self.metrics.items()]
        kept = [_html.Row([checkpoint.step, _html.display_path(checkpoint.path)]) for checkpoint, _ in self.best_checkpoints[-_SHOWN_MAX:]]
        left_out = len(self.best_checkpoints) - len(kept)
        return _html.page(
            _html.Page(
                title="Result of training",
                facts=[f"{_html.counted(self.failures, 'worker')} lost" if self.failures else ""],
                tables=[
                    _html.Table(["metric", "last"], metrics),
                    _html.Table(["step", "checkpoint"], kept, f"… {left_out} older" if left_out else ""),
                ],
                footer=f"results {_html.display_path(self.path)}",
            )
        )


@dataclasses.dataclass
class _Member:
    actor: Any
    token: int
    bundle: int = -1
    is_placed: bool = False
    is_leaving: bool = False
    ready: dict[str, Any] | None = None
    rank: int = -1


@dataclasses.dataclass
class _Pending:
    """A checkpoint of which not all parts are there."""

    metrics: dict[str, Any]
    missing: set[int]  # Ranks whose files have not arrived.


class Controller:
    def __init__(self, options: Options, display: Watch | None = None) -> None:
        self._options = options
        self._display = display
        self._policy: Any = _core.ElasticPolicy(
            options.min_workers, options.max_workers, options.max_failures, options.start_timeout, options.hang_timeout
        )
        self._messages: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._watch = _core.StatusWatch()
        self._members: dict[int, _Member] = {}
        self._tokens: dict[int, int] = {}  # Of living actors, to their member.
        self._next_token = 0
        self._error: BaseException | None = None
        self._is_done = False
        self._step = 0 if options.resume_from is None else options.resume_from.step  # Reports in the last checkpoint.
        self._reported = self._step
        self._metrics: dict[str, Any] = {}
        self._kept: list[tuple[Checkpoint, dict[str, Any]]] = []
        self._latest: Checkpoint | None = options.resume_from
        self._pending: dict[int, _Pending] = {}
        self._early_files: dict[int, set[int]] = {}  # Ranks whose files came before the report of rank 0.
        self._table: Any = None
        self._group: Any = None
        self._bundle_used: list[bool] = []
        self._user_error: BaseException | None = None  # Of the function, if it is the last thing that went wrong.
        self._ends: dict[int, str] = {}  # How the present group's ranks ended.
        self._fruitless = 0
        self._progress = (0, self._step)  # Lost workers and reports in the last checkpoint, at the last forming.

    # ---- The thread that called fit().

    def run(self) -> Result:
        with contextlib.ExitStack() as ends:
            self._fetch_resumed(ends)
            return self._run()

    def _fetch_resumed(self, ends: contextlib.ExitStack) -> None:
        """A checkpoint in a storage is read once, here; ranks get it as any other."""
        resumed = self._options.resume_from
        if resumed is None or not _core.is_storage_address(resumed.path):
            return
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="volador-checkpoint-"))
        step = _core.fetch_checkpoint(resumed.path, folder)
        self._step = self._reported = resumed.step or step
        self._progress = (0, self._step)
        self._latest = Checkpoint(folder, self._step)

    def _run(self) -> Result:
        options = self._options
        least = options.min_workers
        each = f"{least}" if least == options.max_workers else f"{least} to {options.max_workers}"
        report = _core.RunReport(
            name=options.name,
            config=json.dumps(options.config, default=repr),
            metric=options.metric,
            mode=options.mode,
            resources=f"{each} workers with {_in_words(options.resources)} each",
            directory=options.storage,
        )
        self._report: Any = report if self._display is None else self._display.around(report)
        self._note_checkpoint = report.note_checkpoint
        folder = self._report.directory
        self._folder = os.path.join(folder, "checkpoints")
        os.makedirs(self._folder, exist_ok=True)
        threading.Thread(target=self._follow_states, name="volador-train", daemon=True).start()
        outcome, text = "failed", "The program was interrupted."
        try:
            if least > 1:
                self._group = volador.placement_group([_bundle(options.resources)] * least, options.strategy)
                self._bundle_used = [False] * least
            self._carry_out(self._policy.begin())
            self._carry_out(self._policy.start())
            while not self._is_done and self._error is None:
                self._take_message()
            outcome, text = ("finished", "") if self._error is None else ("stopped" if isinstance(self._error, CancelledError) else "failed", str(self._error))
        except KeyboardInterrupt:
            outcome, text = "stopped", "The program was interrupted."
            raise
        except BaseException as error:
            text = str(error)
            raise
        finally:
            self._end()
            self._report.end(outcome, text)
        if self._error is not None:
            raise self._error
        return Result(
            metrics=self._metrics,
            checkpoint=self._kept[-1][0] if self._kept else options.resume_from,
            best_checkpoints=self._kept,
            path=folder,
            failures=self._policy.failures,
        )

    def _take_message(self) -> None:
        due = self._policy.next_tick
        with contextlib.suppress(queue.Empty):
            # The policy's clock stands still while the head is away: a tick may stay due.
            self._messages.get(timeout=_POLL_SECONDS if due is None else min(max(due, 0.001), _POLL_SECONDS))()
        if self._report.stop_requested():
            self._error = CancelledError(f"training {self._options.name}: a user asked the run to stop")
        elif (due := self._policy.next_tick) is not None and due <= 0:
            self._carry_out(self._policy.tick())

    def _end(self) -> None:
        self._watch.close()
        for member in self._members.values():
            _kill(member.actor)
        self._members.clear()
        if self._table is not None:
            _kill(self._table)
        if self._group is not None:
            with contextlib.suppress(VoladorError):  # The head removes it with this program.
                self._group.remove()
        for entry in os.listdir(self._folder):
            if entry.startswith("."):  # A checkpoint that did not become complete.
                shutil.rmtree(os.path.join(self._folder, entry), ignore_errors=True)
        if not os.listdir(self._folder):
            os.rmdir(self._folder)

    # ---- What happens to members.

    def _follow_states(self) -> None:
        while (changes := self._watch.next()) is not None:
            for token, state, node, leaves, death in changes:
                self._messages.put(functools.partial(self._on_state, token, state, node, leaves, death))

    def _on_state(self, token: int, state: str, node: str, leaves: bool, death: str) -> None:
        id_ = self._tokens.get(token)
        if id_ is None:
            return
        member = self._members[id_]
        if state == "dead":
            self._lose(id_, death)
            return
        member.is_placed = member.is_placed or state != "pending"
        if leaves and not member.is_leaving:
            member.is_leaving = True
            self._report.event(f"Node {node} leaves: {self._describe(id_)} moves to another place.")
            self._carry_out(self._policy.member_notice(id_))

    def _describe(self, id_: int) -> str:
        rank = self._members[id_].rank
        return "a starting worker" if rank < 0 else f"rank {rank}"

    def _lose(self, id_: int, cause: str, error: BaseException | None = None) -> None:
        """error: of the function, if it is why the worker counts as lost."""
        if id_ not in self._members:
            return
        self._user_error = error
        self._report.fault(self._members[id_].rank, cause)
        self._drop(id_)
        self._carry_out(self._policy.member_lost(id_, cause, True))

    def _drop(self, id_: int) -> None:
        member = self._members.pop(id_, None)
        if member is None:
            return
        self._tokens.pop(member.token, None)
        self._watch.remove(member.token)
        if member.bundle >= 0:
            self._bundle_used[member.bundle] = False
        _kill(member.actor)

    def _then(self, future: Any, id_: int, on_value: Callable[[Any], None], on_error: Callable[[BaseException], None]) -> None:
        """Passes the result of a member's call to a function on the thread of run(), unless the member is gone."""
        token = self._members[id_].token

        def deliver() -> None:
            if self._tokens.get(token) != id_:
                return
            try:
                value = future.result()
            except BaseException as error:
                on_error(error)
            else:
                on_value(value)

        future.add_done_callback(lambda _: self._messages.put(deliver))

    # ---- Actions of the policy.

    def _carry_out(self, actions: list[tuple[Any, ...]]) -> None:
        for name, *values in actions:
            if name != "none":
                getattr(self, f"_do_{name}")(*values)
        self._fill_bundles()
        self._report.activity(self._policy.explain())

    def _do_spawn(self, ids: list[int]) -> None:
        for id_ in ids:
            try:
                self._spawn(id_)
            except UnavailableError as error:
                self._messages.put(functools.partial(self._on_refusal, id_, str(error)))

    def _on_refusal(self, id_: int, cause: str) -> None:
        self._carry_out(self._policy.member_lost(id_, cause, False))

    def _spawn(self, id_: int) -> None:
        options = self._options
        given = {**options.resources, "env": options.env, "concurrency_groups": {_rank.CONTROL: 1}}
        bundle = self._bundle_used.index(False) if False in self._bundle_used else -1
        if bundle >= 0:
            given.update(placement_group=self._group, bundle=bundle)
        elif id_ > options.min_workers:
            given["wait_if_infeasible"] = True
        actor: Any = _rank.Rank.options(**given).remote(options.function, options.arguments, self._folder)
        self._next_token += 1
        self._members[id_] = _Member(actor, self._next_token, bundle)
        self._tokens[self._next_token] = id_
        if bundle >= 0:
            self._bundle_used[bundle] = True
        self._watch.add(actor._core, self._next_token)
        self._then(actor.prepare.remote(), id_, lambda ready: self._on_ready(id_, ready), lambda error: self._on_failure(id_, 0, error))

    def _fill_bundles(self) -> None:
        """Workers that wait for room move into bundles that have become free, whose resources are reserved."""
        for id_ in [id_ for id_, member in self._members.items() if member.bundle < 0 and not member.is_placed]:
            if False not in self._bundle_used:
                return
            self._drop(id_)
            self._do_spawn([id_])

    def _on_ready(self, id_: int, ready: dict[str, Any]) -> None:
        self._members[id_].ready = ready
        self._carry_out(self._policy.member_ready(id_, ready["node"]))

    def _on_failure(self, id_: int, generation: int, error: BaseException) -> None:
        if isinstance(error, VoladorError):
            self._lose(id_, str(error))
            return
        self._user_error = error
        self._carry_out(self._policy.user_error(id_, generation, _values.exception_text(error).partition("\x1f")[0]))

    def _do_kill(self, id_: int, is_failure: bool, reason: str) -> None:
        if is_failure and id_ in self._members:
            self._report.fault(self._members[id_].rank, reason)
        self._drop(id_)

    def _do_form(self, generation: int, ids: list[int]) -> None:
        if self._is_fruitless():
            return
        options = self._options
        members = [self._members[id_] for id_ in ids]
        places = [member.ready or {} for member in members]
        nodes = list(dict.fromkeys(place["node_id"] for place in places))
        self._pending.clear()
        self._early_files.clear()
        # NCCL refuses two ranks on one GPU. Ranks agree in report() over Gloo.
        nccl = options.resources["num_gpus"] >= 1 and all(place["device"] != "cpu" for place in places)
        backend = "cpu:gloo,cuda:nccl" if options.backend == "nccl" or (options.backend == "auto" and nccl) else "gloo"
        if len(nodes) == 1:
            store: Any = os.path.join(places[0]["scratch"], f"group_{generation}")
        else:
            if self._table is not None:
                _kill(self._table)
            self._table = store = _store.Table.options(num_cpus=0).remote()
            if generation == 1:
                self._report.event(f"Ranks on {len(nodes)} nodes exchange gradients by PyTorch's {backend}, which does not encrypt them.")
        latest = self._latest
        for rank, (id_, member) in enumerate(zip(ids, members)):
            formation = _session.Formation(
                generation=generation,
                rank=rank,
                nodes=[nodes.index(place["node_id"]) for place in places],
                backend=backend,
                store=store,
                step=self._step,
                checkpoint=None if latest is None else latest.path,
                is_sent=latest is not None and not places[rank]["shares_folder"],
                folder=self._folder,
                name=options.name,
                timeout_s=options.collective_timeout,
            )
            if formation.is_sent and latest is not None:
                self._send(member.actor, latest.path)
            self._join(id_, member, formation)

    @staticmethod
    def _send(actor: Any, folder: str) -> None:
        """Sends the files of a checkpoint; a few parts are under way at once."""
        under_way = collections.deque([actor.receive.remote("", b"")])
        try:
            for name, part in _session.parts_of(folder):
                under_way.append(actor.receive.remote(name, part))
                if len(under_way) > _PARTS_MAX:
                    under_way.popleft().result()
            for sent in under_way:
                sent.result()
        except VoladorError:  # It is lost, as join() tells.
            return

    def _is_fruitless(self) -> bool:
        """Whether groups end without a reason that another one could remove; the run fails then."""
        ends, self._ends = self._ends, {}
        before, self._progress = self._progress, (self._policy.failures, self._step)
        self._fruitless = self._fruitless + 1 if ends and before == self._progress else 0
        if self._fruitless < _FRUITLESS_MAX:
            return False
        each = "; ".join(f"rank {rank} {how}" for rank, how in sorted(ends.items()))
        self._error = UnavailableError(
            f"training {self._options.name}: {self._fruitless} groups in a row failed although no worker was lost: {each}. "
            "Do all ranks call report() and collectives equally often, and do their machines reach each other?"
        )
        return True

    def _join(self, id_: int, member: _Member, formation: _session.Formation) -> None:
        def fail(error: BaseException) -> None:
            if isinstance(error, ActorDiedError):
                self._lose(id_, str(error))
            else:
                self._carry_out(self._policy.join_failed(id_, formation.generation, f"{type(error).__name__}: {error}"))

        joined = member.actor.join.remote(formation)
        self._then(joined, id_, lambda _: self._carry_out(self._policy.joined(id_, formation.generation, formation.step)), fail)

    def _do_run(self, generation: int, segment: int, ids: list[int]) -> None:
        ranks = []
        for member in self._members.values():
            member.rank = -1
        for rank, id_ in enumerate(ids):
            member = self._members[id_]
            member.rank = rank
            ready = member.ready or {}
            ranks.append((member.actor._core, ready["node"], ready["pid"], ready["device"]))
            stream = member.actor.run.stream()
            threading.Thread(target=self._follow_rank, args=(id_, member.token, stream, generation, segment), name=f"volador-rank-{rank}", daemon=True).start()
        self._report.ranks(ranks, self._step)

    def _follow_rank(self, id_: int, token: int, stream: Any, generation: int, segment: int) -> None:
        def post(call: Callable[[], None]) -> None:
            self._messages.put(lambda: call() if self._tokens.get(token) == id_ else None)

        try:
            for item in stream:
                post(functools.partial(self._on_item, id_, generation, segment, item))
        except BaseException as error:
            post(functools.partial(self._on_failure, id_, generation, error))

    def _on_item(self, id_: int, generation: int, segment: int, item: tuple[Any, ...]) -> None:
        if generation != self._policy.generation:
            return
        kind = item[0]
        if kind == "report":
            self._on_report(*item[1:])
        elif kind == "part":
            step, name, part = item[1:]
            _session.append(_session.pending_folder(self._folder, generation, step), name, part)
        elif kind == "files":
            self._on_files(*item[1:])
        else:
            self._on_end(id_, generation, segment, *item[1:])

    def _on_end(self, id_: int, generation: int, segment: int, how: str, step: int, text: str) -> None:
        if how == "failed":
            error = _values.exception_in(text) or RuntimeError(text)
            message = f"{type(error).__name__}: {error}"
            if self._options.retry_user_errors:
                self._lose(id_, message, error)
            else:
                self._user_error = error
                self._carry_out(self._policy.user_error(id_, generation, message))
            return
        self._ends[self._members[id_].rank] = {"finished": "had returned", "paused": "paused"}.get(how) or f"failed: {text or 'aborted'}"
        # A rank that stops takes the state of the last checkpoint with it, whose parts came before.
        self._carry_out(self._policy.stopped(id_, generation, segment, step if how == "finished" else self._step, how))

    def _do_pause(self, generation: int, ids: list[int]) -> None:
        for id_ in ids:
            if id_ in self._members:
                self._members[id_].actor.pause.remote(generation)

    def _do_abort(self, generation: int, ids: list[int]) -> None:
        for id_ in ids:
            if id_ in self._members:
                self._members[id_].actor.abort.remote(generation)

    def _do_ask_status(self, round_: int, ids: list[int]) -> None:
        for id_ in ids:
            if id_ in self._members:
                self._ask_status(id_, self._policy.generation, round_)

    def _ask_status(self, id_: int, generation: int, round_: int) -> None:
        self._then(
            self._members[id_].actor.status.options(timeout=_STATUS_SECONDS).remote(),
            id_,
            lambda status: self._carry_out(self._policy.status(id_, generation, round_, *status)),
            lambda _: self._carry_out(self._policy.no_status(id_, round_)),
        )

    def _do_finish(self) -> None:
        self._is_done = True

    def _do_fail(self, code: str, message: str) -> None:
        if self._user_error is not None and code in ("kApplication", "kActorDied"):
            self._error = self._user_error
            return
        kinds = {"kActorDied": ActorDiedError, "kInfeasible": InfeasibleError, "kInvalidArgument": InvalidArgumentError}
        self._error = kinds.get(code, UnavailableError)(f"training {self._options.name}: {message}")

    # ---- Reports.

    def _on_report(self, step: int, metrics: dict[str, Any], with_files: list[int]) -> None:
        self._metrics = metrics
        if step > self._reported:
            self._reported = step
            self._report.metrics(step, _numbers(metrics))
        if with_files:
            self._pending[step] = _Pending(metrics, set(with_files) - self._early_files.pop(step, set()))
            self._complete(step)

    def _on_files(self, step: int, rank: int) -> None:
        pending = self._pending.get(step)
        if pending is None:
            self._early_files.setdefault(step, set()).add(rank)
            return
        pending.missing.discard(rank)
        self._complete(step)

    def _complete(self, step: int) -> None:
        pending = self._pending[step]
        if pending.missing:
            return
        del self._pending[step]
        folder = os.path.join(self._folder, f"checkpoint_{step:06d}")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(_session.pending_folder(self._folder, self._policy.generation, step), folder)
        _core.write_checkpoint_mark(folder, step)
        self._latest = Checkpoint(folder, step)
        self._step = step
        self._note_checkpoint()
        if self._display is not None:
            self._display.checkpoint(step)
        self._kept.append((self._latest, pending.metrics))
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        """Removes a checkpoint if there are too many: that with the worst score, else the oldest; never the last."""
        limit, score = self._options.checkpoints_kept, self._options.checkpoint_score
        if limit is None or len(self._kept) <= limit:
            return
        sign = 1.0 if self._options.mode == "max" else -1.0
        older = self._kept[:-1]
        worst = older[0] if score is None else min(older, key=lambda kept: sign * _numbers(kept[1]).get(score, -sign * float("inf")))
        self._kept.remove(worst)
        with contextlib.suppress(OSError):
            os.remove(f"{worst[0].path}.json")
        shutil.rmtree(worst[0].path, ignore_errors=True)


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Those metrics that are numbers; the others are in Result only."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        with contextlib.suppress(TypeError):
            found.update(_trial.metrics_of({name: value}))
    return found


def file_name_of(text: str) -> str:
    """The text with all that does not belong into a file's name replaced."""
    return re.sub(r"[^\w.-]", "_", text).lstrip(".")[:100] or "train"


def _kill(actor: Any) -> None:
    with contextlib.suppress(VoladorError):  # Ended before, or the head is away: it ends with this program.
        volador.kill(actor)


def _bundle(resources: dict[str, Any]) -> dict[str, float]:
    return {**{key: value for key, value in resources.items() if key != "resources"}, **resources.get("resources", {})}


def _in_words(resources: dict[str, Any]) -> str:
    return ", ".join(f"{value:g} {key.removeprefix('num_')}" for key, value in _bundle(resources).items() if value) or "no resources"
