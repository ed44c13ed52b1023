"""Runs a sweep: prepares everything, then measures the cells without stored results.

Cells of one target are spread over its boards, one at a time on each (harness/sweep/schedule.py); boards and
the evaluation of accuracy work side by side, except that a measurement on this machine waits until it has the
machine to itself.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from harness import console
from harness.config.sweep import Sweep
from harness.config.targets import Target
from harness.errors import ConfigurationError, HarnessError
from harness.locks import Interrupted
from harness.measure.cell import Cell, Inputs, cell_key
from harness.measure.cell_run import measure
from harness.measure.result import Outcome, Work
from harness.measure.spec import chosen_cells
from harness.prediction.predictor import PredictionError, find_predictor
from harness.qemu.profiler import profiling_missing
from harness.runtimes.base import Files, Program, find_runtime
from harness.store.store import PlannedCell, Run, Store, Table
from harness.sweep.board_activity import Backlog, BoardStatus, Left, State
from harness.sweep.board_service import BoardService
from harness.sweep.environment import environment, processor
from harness.sweep.fleet import Fleet
from harness.sweep.inputs import SweepInputs
from harness.sweep.plan import Keyed, cells, interleave
from harness.sweep.preflight import check_files
from harness.sweep.preparation import OWN, Boards, Programs, prepare_programs
from harness.sweep.schedule import Schedule, Task
from harness.sweep.searches import Searcher, Searches
from harness.sweep.worker import Job, Worker
from harness.tasks.base import TaskRunner, stoppable

if TYPE_CHECKING:
    from harness.boards.base import Board

Item = TypeVar("Item")
Watch = Callable[[Sequence[BoardStatus], Left], console.View]


class Finished(NamedTuple):
    """A finished run."""

    run: int  # its number in the store
    chosen: Sequence[int]  # the positions of the cells that it was to measure
    not_repeated: int  # cells of a fresh run that could not be measured again and keep their earlier results


def run_sweep(
    sweep: Sweep,
    folder: Path,
    fleet: Fleet,
    *,
    only: Sequence[str] = (),
    fresh: bool = False,
    debug: bool = False,
    watch: Watch | None = None,
    searcher: Searcher | None = None,
    runner: TaskRunner | None = None,
) -> Finished:
    """Measures the missing cells of a sweep and stores the results in `folder`.

    `only`: words as for `chosen_cells`; other cells are planned, but not measured. With `fresh` all
    cells count as missing. `watch` makes the view of all boards that is shown meanwhile. `searcher` finds the
    policies that the sweep leaves to a search. `runner` runs the engine for accuracy (default: this process).
    Raises HarnessError if nothing can be measured at all. If a cell fails, its error is stored and the sweep
    continues.
    """
    chosen = chosen_cells([cell.name for cell in cells(sweep, fleet.is_emulated)], only)
    with Store(folder) as store:
        facts = environment(sweep.runtimes)
        run = store.begin_run(sweep=sweep.name, file=str(sweep.file), fresh=fresh, environment=facts)
        worker = Worker(store, run, debug=debug)
        with Boards(worker, fleet.open) as boards:
            try:
                execution = _Execution(
                    sweep,
                    store,
                    run,
                    worker,
                    boards,
                    fleet,
                    chosen,
                    watch=watch,
                    searcher=searcher,
                    runner=runner,
                )
                execution.run_all()
            finally:
                worker.stop.set()
        store.finish_run(run)
        settled = store.settled_together([("cells", execution.keys[place]) for place in chosen], run)
        return Finished(run.id, chosen, settled.count(False))


@cache
def _prediction(target: Target) -> str:
    """A fingerprint of the predictor of an emulated target. When it changes, for example because LLVM was
    installed, the cells are run again."""
    if profiling_missing():
        return "no profile"
    try:
        return find_predictor(target).fingerprint
    except PredictionError:
        return "no prediction"


class _Execution:
    def __init__(
        self,
        sweep: Sweep,
        store: Store,
        run: Run,
        worker: Worker,
        boards: Boards,
        fleet: Fleet,
        chosen: Sequence[int],
        *,
        watch: Watch | None,
        searcher: Searcher | None,
        runner: TaskRunner | None,
    ) -> None:
        self.sweep = sweep
        self.store = store
        self.run = run
        self.worker = worker
        self.boards = boards
        self.fleet = fleet
        self.watch = watch
        self.searcher = searcher
        self.runner = runner
        self.cells: Sequence[Cell] = cells(sweep, fleet.is_emulated)
        self.chosen = chosen
        self.keys: Sequence[str] = ()  # of all cells
        self.unfound: dict[Cell, HarnessError] = {}  # why there is no policy for these

    def run_all(self) -> None:
        check_files(self.sweep)
        wanted = self._possible_targets()
        if not wanted:
            self._skip_all()
            return
        wanted_programs = product(self.sweep.runtimes, wanted, self.sweep.toolchains)
        programs = prepare_programs(wanted_programs, self.worker, self.sweep.algorithms)
        host = programs[OWN]
        assert isinstance(host, Program)
        self.inputs = SweepInputs(self.sweep, self.store, host, self.runner)
        for model in self.sweep.models:
            self.inputs.check(model)
        self._calibrate()
        self._search()
        keys = self.keys = [self._key(cell, programs) for cell in self.cells]
        accuracies = [
            None
            if cell in self.unfound
            else self.inputs.accuracy_job(cell.variant, cell.options, cell.runtime)
            for cell in self.cells
        ]
        self._plan(keys, accuracies)
        self._note_artifacts(programs)
        impossible = self._give_up(keys, programs)
        # By key: cells with the same key are measured once.
        possible = [place for place in self.chosen if keys[place] not in impossible]
        pending = {keys[place]: self.cells[place] for place in possible}
        evaluations = {job.key: job for place in possible if (job := accuracies[place])}
        open_evaluations = self._unsettled("evaluations", evaluations)
        open_cells = self._unsettled("cells", pending)
        if open_cells or open_evaluations:
            self._work(open_cells, list(open_evaluations.values()), programs)
        elif not impossible:
            which = "these cells" if len(self.chosen) < len(self.cells) else "all cells"
            console.log(f"{which} are measured already")

    @cached_property
    def missing(self) -> str:
        """The missing requirements of emulated boards, "" if there are none. Checked only if such a board is
        needed, and reported once."""
        missing = "; ".join(self.fleet.missing())
        if missing:
            console.warn(f"skipping emulated boards: {missing}")
        return missing

    def _possible_targets(self) -> list[Target]:
        """The targets that can be measured, or that have results."""
        chosen = {self.cells[place].target for place in self.chosen}
        wanted = []
        for target in self.sweep.targets:
            measured = self.store.has_results(target.name)
            possible = measured or (
                target in chosen and (not self.fleet.is_emulated(target) or not self.missing)
            )
            if possible:
                wanted.append(target)
                if not measured:
                    for board in self.fleet.boards(target):
                        self.boards.open(board)  # in the background: building an image takes minutes
        return wanted

    def _skip_all(self) -> None:
        """Stores all cells as skipped, without building anything."""
        keys = self.keys = [cell_key(cell, Inputs(engine="", weights="")) for cell in self.cells]
        self._plan(keys, [None] * len(keys))
        for key in dict.fromkeys(keys[place] for place in self.chosen):
            self.store.complete_cell(
                self.run, key, Outcome(status="skipped", error=f"emulation is not available: {self.missing}")
            )

    def _calibrate(self) -> None:
        models = {cell.model.name: cell.model for cell in self.cells if cell.variant.int8.static}.values()
        self._settle(job for job in map(self.inputs.calibration_job, models) if job)

    def _search(self) -> None:
        """Searches the policies of cells that are to be measured, and gives all cells what was found."""
        searches = Searches(self.inputs, self.searcher, _prediction)
        chosen = {self.cells[place].variant for place in self.chosen}
        self._settle([searches.job(variant) for variant in chosen if variant.search])
        found = list(self.cells)
        for place, cell in enumerate(self.cells):
            if cell.variant.search:
                try:
                    found[place] = replace(cell, variant=searches.found(cell.variant))
                except HarnessError as error:
                    self.unfound[cell] = error
        self.cells = found

    def _key(self, cell: Cell, programs: Programs) -> str:
        if cell in self.unfound:  # not the key of what its variant is until then
            return cell_key(cell, Inputs(engine="", weights="", calibration=cell.policy))
        program = programs.get((cell.runtime, cell.target.name, cell.build))
        return cell_key(
            cell,
            Inputs(
                engine=program.sha256 if isinstance(program, Program) else "",
                weights=self.inputs.executed_hash(cell.runtime, cell.variant),
                calibration=self.inputs.calibration_hash(cell.variant),
                libraries=find_runtime(cell.runtime).libraries_sha256(cell.target, cell.options),
                samples=self.inputs.samples_hash(cell.model),
                machine=processor() if cell.target.is_host else "",
                prediction=_prediction(cell.target) if cell.emulated else "",
            ),
        )

    def _plan(self, keys: Sequence[str], accuracies: Sequence[Job | None]) -> None:
        self.store.plan(
            self.run,
            [
                PlannedCell(spec=cell.spec, key=key, accuracy_key=accuracy.key if accuracy else None)
                for cell, key, accuracy in zip(self.cells, keys, accuracies, strict=True)
            ],
        )

    def _note_artifacts(self, programs: Programs) -> None:
        hashes = {
            f"{runtime} for {target} by {build.name}": program.sha256
            for (runtime, target, build), program in programs.items()
            if isinstance(program, Program)
        }
        for model in self.sweep.models:
            hashes[str(model.cfg)] = self.inputs.file_hash(model.cfg)
            hashes[str(model.weights)] = self.inputs.file_hash(model.weights)
            if model.dataset:
                hashes[str(model.dataset)] = self.inputs.dataset_hash(model.dataset)
        for cell in self.cells:
            if digest := self.inputs.calibration_hash(cell.variant):
                hashes[str(self.inputs.calibration(cell.variant))] = digest
        self.store.add_artifacts(self.run, hashes)

    def _give_up(self, keys: Sequence[str], programs: Programs) -> set[str]:
        """Stores why some cells cannot be measured, and returns their keys. Keeps earlier results."""
        impossible = set()
        for place in self.chosen:
            cell, key = self.cells[place], keys[place]
            if error := self._why_not(cell, programs):
                outcome = Outcome(status="failed", error=str(error))
            elif cell.emulated and not self.store.settled("cells", key, self.run) and self.missing:
                outcome = Outcome(status="skipped", error=f"emulation is not available: {self.missing}")
            else:
                continue
            impossible.add(key)
            if self.store.status("cells", key) != "done":
                self.store.complete_cell(self.run, key, outcome)
        return impossible

    def _why_not(self, cell: Cell, programs: Programs) -> HarnessError | None:
        """Why a cell cannot be run on any board: its runtime lacks the program, an option or the file."""
        if cell in self.unfound:
            return self.unfound[cell]
        program = programs.get((cell.runtime, cell.target.name, cell.build))
        if isinstance(program, HarnessError):
            return program
        unknown = set(cell.options.chosen) - set(find_runtime(cell.runtime).options)
        if unknown:
            return ConfigurationError(f"{cell.runtime} has no option {min(unknown)}")
        try:
            self.inputs.model_file(cell.runtime, cell.variant)
        except HarnessError as error:
            return error
        return None

    def _unsettled(self, table: Table, items: Mapping[str, Item]) -> dict[str, Item]:
        """The items that are not settled in this run, by their keys."""
        settled = self.store.settled_together([(table, key) for key in items], self.run)
        return {key: item for (key, item), ended in zip(items.items(), settled, strict=True) if not ended}

    def _settle(self, jobs: Iterable[Job]) -> None:
        """Does jobs that other jobs depend on, one after another."""
        if open_jobs := self._unsettled("evaluations", {job.key: job for job in jobs}):
            with console.progress("preparing", total=len(open_jobs)) as bar:

                def advance(job: Job) -> None:
                    bar.describe(job.name)
                    bar.advance()

                self.worker.work(open_jobs.values(), advance)

    def _work(
        self,
        pending: Mapping[str, Cell],
        evaluations: Sequence[Job],
        programs: Programs,
    ) -> None:
        targets = {
            board: target.name for target in self._targets(pending) for board in self.fleet.boards(target)
        }
        for board in targets:
            self.boards.open(board)
        if self.sweep.emulated.images:
            self._settle(
                self.inputs.digests_job(cell.variant, cell.options)
                for cell in pending.values()
                if not find_runtime(cell.runtime).formats
            )
        tasks = [
            Task(items, items[0][1].target.name, sum(self._cost(cell) for _, cell in items))
            for items in interleave(pending, Counter(targets.values()))
        ]
        total = len(pending) + len(evaluations)
        board_statuses = [BoardStatus(board, target) for board, target in targets.items()]
        evaluation = [BoardStatus("evaluation")] if evaluations else []
        backlog = Backlog({key: (cell.target.name, self._cost(cell)) for key, cell in pending.items()})
        with (
            console.progress("measuring", total=total) as bar,
            ThreadPoolExecutor(len(board_statuses) + len(evaluation)) as pool,
        ):

            def advance(job: Job) -> None:
                backlog.end(job.key)
                bar.describe(job.name)
                bar.advance()

            def abandon(task: Task[Keyed], error: HarnessError) -> None:
                for keyed in task.items:
                    job = self._cell_job(keyed, programs, "")
                    self.worker.give_up(job, error)
                    advance(job)

            told = {board: pauses for board in targets if (pauses := self.fleet.pauses(board)) is not None}
            service = BoardService(
                worker=self.worker,
                boards=self.boards,
                fleet=self.fleet,
                schedule=Schedule(tasks, targets, abandon, told),
                job_for=lambda keyed, board: self._cell_job(keyed, programs, board),
                cost=self._cost,
                advance=advance,
            )
            view = self.watch([*evaluation, *board_statuses], backlog.left) if self.watch else None
            with console.live(view) if view else contextlib.nullcontext():
                done = False
                try:
                    # Within the try: a signal may come while threads are started.
                    futures = [pool.submit(service.serve, board_status) for board_status in board_statuses]
                    futures += [
                        pool.submit(self._evaluate, board_status, evaluations, advance)
                        for board_status in evaluation
                    ]
                    wait(futures, return_when=FIRST_EXCEPTION)
                    done = all(future.done() for future in futures)
                finally:
                    if not done:
                        self.worker.stop.set()
                        self.store.hurry()
                        self.boards.close(Interrupted)  # ends the processes there
            for future in futures:
                future.result()

    @staticmethod
    def _targets(pending: Mapping[str, Cell]) -> list[Target]:
        return list(dict.fromkeys(cell.target for cell in pending.values()))

    def _cost(self, cell: Cell) -> float:
        return self.inputs.multiply_adds(cell.model) / cell.threads

    def _evaluate(
        self, board_status: BoardStatus, evaluations: Iterable[Job], advance: Callable[[Job], None]
    ) -> None:
        with console.telling(board_status.tell), stoppable(self.worker.stop.is_set):
            self.worker.work(map(board_status.watched, evaluations), advance)
        board_status.enter(State.FINISHED)

    def _alone_on(self, board: Board) -> contextlib.AbstractContextManager[None]:
        """Keeps other harnesses from measuring on a device."""

        def pause(seconds: float) -> None:
            if self.worker.stop.wait(seconds):
                raise Interrupted

        return board.lock(pause)

    def _cell_job(self, keyed: Keyed, programs: Programs, board: str) -> Job:
        key, cell = keyed
        device = "" if cell.emulated or cell.target.is_host else board
        program = programs[cell.runtime, cell.target.name, cell.build]
        assert isinstance(program, Program)

        def perform() -> Work:
            model = self.inputs.model_file(cell.runtime, cell.variant)
            files = Files(
                program=program.path,
                cfg=self.inputs.cfg(cell.variant),
                weights=cell.model.weights,
                calibration=self.inputs.calibration(cell.variant),
                samples=self.inputs.samples(cell.model) if self.sweep.emulated.images and not model else None,
                libraries=find_runtime(cell.runtime).libraries(cell.target, cell.options),
                model=model.path if model else None,
            )
            expected = self.inputs.digests(cell.variant, cell.options) if files.samples else ()
            multiply_adds = self.inputs.multiply_adds(cell.model)
            return (
                yield from measure(self.boards.get(board), cell, files, expected, multiply_adds=multiply_adds)
            )

        return Job(
            name=cell.name,
            table="cells",
            key=key,
            perform=perform,
            alone=cell.target.is_host,
            board=device,
            turn=lambda: self._alone_on(self.boards.get(device)) if device else contextlib.nullcontext(),
        )
