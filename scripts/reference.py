"""Writes docs/reference/*.md: every option and function that programs use, in the order of the public headers, with the headers' comments.

reference.py            writes the pages
reference.py --check    writes nothing; exit code 1 names the pages that are not as this program would write them
reference.py --self-test
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"

# Page → title, what stands below it, and what it shows of which header: types and free functions.
PAGES = {
    "init": ("init", "How a program becomes part of a cluster. `#include <volador/volador.h>` has everything on these pages.", [
        ("volador/init.h", ["init", "InitOptions", "Cluster"]),
    ]),
    "actors": ("Actors", "`volador::actor<T>(arguments…)` gives an `ActorBuilder`: options in any order, then `spawn()`.", [
        ("runtime/actor/handle.h", ["actor", "ActorBuilder", "HealthCheck"]),
        ("runtime/resources.h", ["Resources"]),
        ("runtime/actor/handle.h", ["ActorHandle", "KillOptions", "get_actor"]),
        ("runtime/actor/session.h", ["Isolation", "ActorState", "ActorStatus"]),
        ("runtime/actor/self.h", ["self", "is_inside_actor", "Self"]),
        ("runtime/actor/call_context.h", ["cancel_requested", "throw_if_cancelled", "time_left", "exit_actor"]),
        ("runtime/actor/deferred.h", ["Deferred"]),
        ("runtime/actor/stream.h", ["Sink", "Stream"]),
        ("runtime/actor/actor_pool.h", ["ActorPool"]),
    ]),
    "tasks": ("Tasks", "`volador::task<&function>(arguments…)` gives a `TaskBuilder`: options in any order, then `submit()`.", [
        ("runtime/task/task.h", ["task", "TaskBuilder"]),
    ]),
    "future": ("Future", "The result of a call or task that may still be under way.", [
        ("runtime/actor/future.h", ["Future", "CancelOptions"]),
        ("runtime/actor/wait.h", ["get", "wait", "WaitOptions"]),
    ]),
    "result": ("Result and Error", "Errors are values; at the edge to the user's code they are thrown as `volador::Exception`.", [
        ("runtime/result.h", ["Result", "Error", "Exception", "make_error", "to_string"]),
    ]),
    "error-codes": ("Error codes", "What the caller should do about an error.", [
        ("runtime/result.h", ["ErrorCode", "error_code_from"]),
    ]),
    "queue": ("Queue", "A bounded queue for several producers and consumers.", [
        ("runtime/actor/queue.h", ["Queue", "QueueOptions"]),
    ]),
    "tune-run": ("tune::run", "Everything that a run of the tuner can be told, in the order in which it is declared: C++ wants options in this order.", [
        ("tune/tune.h", ["run"]),
        ("tune/execution/run_options.h", ["RunOptions", "Progress"]),
        ("tune/loop/checkpoint_retention.h", ["CheckpointOptions"]),
        ("tune/loop/objectives.h", ["Objective"]),
        ("tune/tune.h", ["Tuner"]),
    ]),
    "analysis": ("Analysis", "What a run of the tuner found.", [
        ("tune/results/analysis.h", ["Analysis", "SavedCheckpoint"]),
        ("tune/loop/best_trial.h", ["Scope", "BestTrial"]),
        ("tune/loop/trial.h", ["Trial"]),
    ]),
    "trainer": ("Trainer", "Data-parallel training by several processes. `#include <train/train.h>` and `volador::train` have everything on the pages about training.", [
        ("train/trainer/trainer.h", ["TorchTrainer", "Trainer", "TrainerOptions", "WorkerRange", "TrainOptions", "ValidateOptions"]),
        ("train/trainer/tuned_trainer.h", ["as_trainable"]),
    ]),
    "training-operator": ("TrainingOperator", "What a training run does with a batch: models, optimizers and data of one rank.", [
        ("train/operator/training_operator.h", ["TrainingOperator", "DataOptions", "BatchInfo", "EpochInfo", "StepOptions", "LoadedStep", "BatchIterator", "ScheduleStep", "NanPolicy",
                                                "Criterion", "cross_entropy", "nll_loss", "mse_loss", "bce_with_logits", "OptimizerFactory", "sgd", "adam", "adamw", "SgdSettings", "AdamSettings"]),
        ("train/group/compression.h", ["Compression", "PowerSgdOptions"]),
        ("train/operator/sync_batch_norm.h", ["convert_sync_batch_norm"]),
        ("train/optim/clip.h", ["clip_grad_norm_", "clip_grad_value_"]),
        ("train/optim/grad_scaler.h", ["GradScaler", "GradScalerOptions", "AutocastGuard"]),
    ]),
    "torch-trial": ("TorchTrial", "A trial class in the shape of Determined's PyTorchTrial.", [
        ("train/trial/torch_trial.h", ["TorchTrial", "TrainingDataLoader", "ValidationDataLoader", "TrialCallback"]),
        ("train/trial/trial_context.h", ["TorchTrialContext", "StepMode", "BackwardOptions", "Aggregation", "ReducerUse", "LrScheduler", "DistributedContext"]),
        ("train/trial/metric_reducer.h", ["Reducer", "EvaluationReducer", "MetricReducer", "ValuesReducer"]),
        ("train/trial/script_model.h", ["load_script_model"]),
        ("train/trial/exported_program.h", ["is_exported_program", "script_of_exported_program"]),
    ]),
    "train-data": ("Data sets", "Numbered rows that are read in batches of tensors, and readers of common files.", [
        ("train/data/dataset.h", ["Batch", "Dataset", "tensor_dataset", "map_dataset", "subset", "split", "transformed", "with_classes", "tensor_of"]),
        ("train/data/readers.h", ["csv", "CsvOptions", "CsvTarget", "image_folder", "ImageFolderOptions", "mnist", "cifar10", "cifar100", "Cifar100Labels", "Normalise", "idx", "read_image", "resize_image"]),
        ("train/data/loader.h", ["Loader", "LoaderOptions", "LoadedBatch"]),
    ]),
    "schedules": ("Schedules", "Learning rates as functions of the step. The factories are in the namespace `train::schedules`.", [
        ("train/core/schedule.h", ["Schedule", "constant", "ConstantOptions", "linear", "LinearOptions", "step", "StepOptions", "multi_step", "MultiStepOptions", "exponential", "ExponentialOptions",
                                   "cosine", "CosineOptions", "cosine_warm_restarts", "CosineWarmRestartsOptions", "polynomial", "PolynomialOptions", "one_cycle", "OneCycleOptions", "Anneal",
                                   "cyclic", "CyclicOptions", "CyclicMode", "inverse_sqrt", "InverseSqrtOptions", "noam", "NoamOptions", "lambda", "chained", "sequential", "SequentialOptions",
                                   "PlateauSchedule", "PlateauOptions", "PlateauMode", "PlateauThreshold"]),
    ]),
    "optimizers": ("Optimizers", "Optimizers beside LibTorch's, and faster steps of those.", [
        ("train/optim/optimizers.h", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam"]),
    ]),
    "state-dict": ("State of models and optimizers", "Files and dictionaries that PyTorch in Python reads and writes.", [
        ("train/optim/state_dict.h", ["module_state", "load_module_state", "optimizer_state", "load_optimizer_state", "save_file", "load_file", "to_bytes", "from_bytes", "clone_tensors"]),
    ]),
}
NOT_FOR_USERS = re.compile(r"\b(friend|delete|Iterator|iterator_category)\b|registration::|const void|&&\) noexcept$|volador_(en|de)code|Impl\b|operator=|^(virtual )?~|^using [\w:]+$|static_assert|shared_ptr<(Reply|internal|const ActorHold)|internal::|RefScope")


class Item:
    """One declaration: its text up to a body, the comment above or beside it, and the members of a type."""

    def __init__(self, text, comment, body):
        self.text, self.comment, self.body = " ".join(text.split()), comment, body

    @property
    def kind(self):
        found = re.match(r"(?:template <.*?> )?(namespace|class|struct|enum|union)\b", re.sub(r"template <[^>]*(?:<[^>]*>[^>]*)*> ", "", self.text))
        return found.group(1) if found else "other"

    @property
    def name(self):
        text = re.sub(r"^template <[^>]*(?:<[^>]*>[^>]*)*> (?:requires.*?\) )?", "", self.text)
        if self.kind != "other":
            return re.match(r"(?:namespace|class|struct|enum class|enum|union) ([\w:]+)", text).group(1) if re.match(r"\w+ (?:class )?[\w:]+", text) else ""
        if text.startswith("using "):
            return text.split()[1]
        at = re.search(r"([\w~]+|operator\S+)\s*\(", text)
        return at.group(1) if at else ""


def end_of_string(code, at):
    quote, at = code[at], at + 1
    while code[at] != quote:
        at += 2 if code[at] == "\\" else 1
    return at + 1


def parse(code):
    """The declarations of a namespace's or a type's body, in groups: those of a group share the comment of the first."""
    groups, comment, at, open_group = [], [], 0, False
    public = True
    while at < len(code):
        gap = re.compile(r"\s*").match(code, at)
        if gap.group().count("\n") > 1:
            comment, open_group = [], False
        at = gap.end()
        if at >= len(code):
            break
        if code.startswith("//", at):
            end = code.find("\n", at)
            end = len(code) if end < 0 else end
            line = code[at:end]
            if not line.startswith("// ----"):
                comment.append(line[2:].removeprefix(" "))
            open_group = False
            at = end
            continue
        if code[at] == "#":  # With its continuation lines.
            end = re.compile(r"(?:[^\n]*\\\n)*[^\n]*").match(code, at).end()
            at, comment, open_group = end, [], False
            continue
        label = re.compile(r"(public|private|protected):(?!:)").match(code, at)
        if label:
            public = label.group(1) == "public"
            at, comment, open_group = label.end(), [], False
            continue
        item, at = parse_item(code, at)
        if item is None:
            continue
        beside = re.compile(r"[ \t]*//[ ]?([^\n]*)").match(code, at)
        if beside:
            at = beside.end()
        if not public:
            comment, open_group = [], False
            continue
        own = beside.group(1) if beside else ""
        if comment or not open_group:
            groups.append((comment, []))
        item.comment = own
        groups[-1][1].append(item)
        comment, open_group = [], True
    return groups


def end_of_text(code, at):
    """Where a string, a character or a comment that begins there ends; `at` where none does."""
    if code.startswith("//", at):
        return code.find("\n", at)
    if code[at] in "\"'" and not (code[at] == "'" and code[at - 1].isdigit()):
        return end_of_string(code, at)
    return at


def parse_item(code, at):
    """(the declaration that begins there, where it ends)."""
    begin, depth, head = at, 0, None
    while at < len(code):
        after = end_of_text(code, at)
        if after != at:
            at = after
            continue
        c = code[at]
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == ";" and depth == 0:
            text = code[begin:at]
            return (Item(without_initialisers(re.sub(r"//[^\n]*", "", text)), "", None) if text.strip() else None), at + 1
        elif c == "{" and depth == 0:
            text = re.sub(r"//[^\n]*", "", code[begin:at])
            end = end_of_braces(code, at)
            bare = re.sub(r"^\s*template <[^>]*(?:<[^>]*>[^>]*)*>\s*", "", text)
            if re.match(r"\s*(namespace|class|struct|enum|union)\b", bare):
                head = Item(text, "", code[at + 1:end - 1])
            elif re.search(r"\)[^=]*$", text) and "=" not in text.rsplit(")", 1)[1]:
                head = Item(without_initialisers(text), "", "")
            if head is not None:
                after = re.compile(r"\s*;").match(code, end)
                return head, after.end() if after else end
            at = end
            continue
        at += 1
    return None, at


def end_of_braces(code, at):
    depth = 0
    while at < len(code):
        after = end_of_text(code, at)
        if after != at:
            at = after
            continue
        c = code[at]
        depth += (c == "{") - (c == "}")
        at += 1
        if depth == 0:
            return at
    return at


def without_initialisers(text):
    """Without the list of a constructor's initialisers, and what is of no use to callers."""
    text = " ".join(text.split())
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == ":" and depth == 0 and text[i - 1] == " " and text[i + 1] == " " and ")" in text[:i]:
            text = text[:i]
            break
    return text.replace("[[nodiscard]] ", "").replace("[[noreturn]] ", "").replace("explicit ", "").replace("inline ", "").strip()


def items_of(header):
    """name → its groups (comment, declarations), over all namespaces that are open to users."""
    out = {}

    def walk(code):
        for comment, items in parse(code):
            for item in items:
                if item.kind == "namespace":
                    if item.name not in ("internal", "registration", "codec", "names"):
                        walk(item.body)
                elif item.name:
                    found = out.setdefault(item.name, [])
                    if item.kind != "other" and item.body is None:
                        continue  # Declared only.
                    if found and found[-1][0] is comment:
                        found[-1][1].append(item)
                    else:
                        found.append((comment, [item]))

    walk(header)
    return out


def prose(lines, cell=False):
    """A comment as Markdown: lines that are indented are code."""
    escaped = [re.sub(r"([<*|])" if cell else r"([<*])", r"\\\1", line) for line in lines]
    if cell:
        return " ".join(line.strip() for line in escaped if line.strip())
    out, code = [], False
    for plain, line in zip(lines, escaped):
        indented = plain.startswith("  ")
        if indented != code and (indented or plain.strip()):
            out += ["", "```c++"] if indented else ["```", ""]
            code = indented
        out.append(plain[2:] if code else line)
    if code:
        out.append("```")
    return "\n".join(out).strip()


def fields_of(item):
    """(name, type, default, comment) of each field, or None where the type is more than its fields."""
    fields = []
    for comment, items in parse(item.body):
        for index, member in enumerate(items):
            found = re.match(r"(?!static )([\w:<>, *&]+?[>\w]) (\w+)(?: = (.*)|\{(.*)\})?$", member.text)
            if not found or member.body is not None or member.text.startswith(("using ", "static ")):
                if NOT_FOR_USERS.search(member.text) or "operator" in member.text:
                    continue
                return None
            kind, name, default, braces = found.groups()
            said = (comment if index == 0 else []) + ([member.comment] if member.comment else [])
            fields.append((name, kind, (default if default is not None else braces or "").strip(), said))
    return fields


def values_of(item):
    """(name, number, comment) of an enumeration."""
    values, above = [], []
    number = -1
    for line in item.body.split("\n"):
        line = line.strip()
        if line.startswith("//"):
            above.append(line[2:].strip())
            continue
        code, _, beside = line.partition("//")
        for part in filter(None, (one.strip() for one in code.split(","))):
            name, _, given = part.partition("=")
            number = int(given, 0) if given.strip() else number + 1
            values.append((name.strip(), number, above + ([beside.strip()] if beside and part == code.strip().rstrip(",") else [])))
            above = []
    return values


def shown(default):
    return "" if default in (None, "", "{}", "std::nullopt") else f"`{default}`"


def type_page(name, comment, item, level):
    out = [f"{'#' * level} {name}", "", prose(comment), ""]
    if item.kind == "enum":
        out += ["| value | number | |", "|---|---|---|"]
        out += [f"| `{value}` | {number} | {prose(said, True)} |" for value, number, said in values_of(item)]
        return out + [""]
    fields = fields_of(item)
    if fields:
        out += ["| field | type | default | |", "|---|---|---|---|"]
        out += [f"| `{field}` | `{kind}` | {shown(default)} | {prose(said, True)} |" for field, kind, default, said in fields]
        return out + [""]
    for above, members in parse(item.body):
        members = [member for member in members if not NOT_FOR_USERS.search(member.text) and not member.text.endswith("= default")]
        nested = [member for member in members if member.kind in ("struct", "enum", "class") and member.body]
        for member in nested:
            out += type_page(f"{name}::{member.name}", above, member, level + 1)
        out += declarations([member for member in members if member not in nested and member.kind == "other"], above)
    return out


def declarations(members, above):
    if not members:
        return []
    out = ["```c++"]
    for member in members:
        out.append(member.text + ";" + (f"  // {member.comment}" if member.comment else ""))
    return out + ["```", "", prose(above), ""]


def page(title, intro, parts):
    out = [f"# {title}", "", intro, "", "<!-- Written by scripts/reference.py from the comments of the headers; change those. -->", ""]
    for header, names in parts:
        found = items_of((ROOT / header).read_text(encoding="utf-8"))
        for name in names:
            if name not in found:
                raise SystemExit(f"reference.py: {header} declares no {name}; PAGES in scripts/reference.py names it")
            heading = False
            for comment, items in found[name]:
                types = [item for item in items if item.body and item.kind in ("class", "struct", "enum")]
                for item in types:
                    out += type_page(name, comment, item, 2)
                others = [item for item in items if item not in types]
                if others:
                    out += ([] if heading else [f"## {name}", ""]) + declarations(others, comment)
                    heading = True
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def index():
    lines = ["# Reference", "", "Options and functions that programs use, with the comments of the headers in which they are declared.", ""]
    lines += [f"- [{title}]({name}.md)" for name, (title, _, _) in PAGES.items()]
    return "\n".join(lines) + "\n"


def written():
    out = {f"{name}.md": page(title, intro, parts) for name, (title, intro, parts) in PAGES.items()}
    out["README.md"] = index()
    return out


def check(pages):
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
    for name in stale:
        print(f"docs/reference/{name}: not as the headers say: run scripts/reference.py")
    return 1 if stale else 0


def self_test():
    code = """
#define A(x) \\
  x
namespace n {
// What it is for.
struct Options {
  int first = 1;           // The first; at least 1.
  // Above it.
  std::vector<int> second = {};
  std::chrono::seconds third{5};  // A | b.
};
// An answer.
template <class T>
class Box {
 public:
  explicit Box(int a) : a_(a) { a_ = 2; }
  // Gives it.
  T get() const { return a_; }
  T other() const;  // Beside.

  // Not the same group.
  void set(T value = T{});
  Box(const Box&) = delete;

 private:
  int a_;
};
enum class Code : uint8_t {
  kOne = 1,  // First.
  kNext,     // Second.
};
// Runs it.
int run(int x, std::string y = "}");
template <class T>
int run(T x) { return 1; }
}
"""
    found = items_of(code)
    ((comment, (options,)),) = found["Options"]
    assert comment == ["What it is for."] and options.kind == "struct"
    assert fields_of(options) == [("first", "int", "1", ["The first; at least 1."]), ("second", "std::vector<int>", "{}", ["Above it."]), ("third", "std::chrono::seconds", "5", ["A | b."])], fields_of(options)
    box = "\n".join(type_page("Box", *[found["Box"][0][0], found["Box"][0][1][0]], 2))
    assert "T get() const;\nT other() const;  // Beside.\n```\n\nGives it." in box, box
    assert "Box(int a);" in box and "void set(T value = T{});\n```\n\nNot the same group." in box and "delete" not in box and "a_" not in box, box
    ((_, (codes,)),) = found["Code"]
    assert values_of(codes) == [("kOne", 1, ["First."]), ("kNext", 2, ["Second."])], values_of(codes)
    ((comment, runs),) = found["run"]
    assert [run.text for run in runs] == ['int run(int x, std::string y = "}")', "template <class T> int run(T x)"] and comment == ["Runs it."], [run.text for run in runs]
    assert prose(["a < b", "", "  x = 1;", "", "c"]) == "a \\< b\n\n\n```c++\nx = 1;\n\n```\n\nc", repr(prose(["a < b", "", "  x = 1;", "", "c"]))
    print("ok")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    pages = written()
    if sys.argv[1:] == ["--check"]:
        return check(pages)
    if sys.argv[1:]:
        print(__doc__)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
