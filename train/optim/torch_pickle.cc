#include "train/optim/torch_pickle.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/result.h"

namespace volador::train {
namespace {

using c10::IValue;
using GenericDict = c10::impl::GenericDict;
using GenericList = c10::impl::GenericList;

constexpr size_t kNestingMax = 200;  // Contents of tuples and of unfinished lists and dictionaries.

[[noreturn]] void fail(std::string message) { throw Exception({ErrorCode::kInvalidArgument, std::move(message)}); }
[[noreturn]] void corrupt(std::string_view why) { fail(fmt::format("it is truncated or corrupt: {}", why)); }

struct Global {
  std::string name;  // "torch._utils._rebuild_tensor_v2".
};
struct Stored {
  c10::Storage storage;
  at::ScalarType type;
};
struct Value;
struct TupleData {
  std::vector<Value> elements;
  size_t nesting = 1;
};
using Tuple = std::shared_ptr<TupleData>;
struct Value {
  std::variant<IValue, Global, Stored, Tuple> data;
};

std::optional<at::ScalarType> type_of_storage(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, at::ScalarType>, 12> kTypes = {{
      {"torch.FloatStorage", at::kFloat},
      {"torch.DoubleStorage", at::kDouble},
      {"torch.HalfStorage", at::kHalf},
      {"torch.BFloat16Storage", at::kBFloat16},
      {"torch.LongStorage", at::kLong},
      {"torch.IntStorage", at::kInt},
      {"torch.ShortStorage", at::kShort},
      {"torch.CharStorage", at::kChar},
      {"torch.ByteStorage", at::kByte},
      {"torch.BoolStorage", at::kBool},
      {"torch.ComplexFloatStorage", at::kComplexFloat},
      {"torch.ComplexDoubleStorage", at::kComplexDouble},
  }};
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  return std::nullopt;
}

IValue plain(const Value& value) {
  if (const auto* done = std::get_if<IValue>(&value.data)) return *done;
  if (const auto* global = std::get_if<Global>(&value.data)) fail("it contains " + global->name);
  if (std::holds_alternative<Stored>(value.data)) fail("it contains a storage without a tensor");
  std::vector<IValue> elements;
  for (const Value& element : std::get<Tuple>(value.data)->elements) elements.push_back(plain(element));
  return c10::ivalue::Tuple::create(std::move(elements));
}

int64_t integer(const Value& value) {
  const auto* number = std::get_if<IValue>(&value.data);
  if (number == nullptr || !number->isInt()) corrupt("an integer is missing");
  return number->toInt();
}

std::vector<int64_t> integers(const Value& value) {
  const auto* tuple = std::get_if<Tuple>(&value.data);
  if (tuple == nullptr) corrupt("the shape of a tensor is missing");
  std::vector<int64_t> out;
  for (const Value& element : (*tuple)->elements) {
    out.push_back(integer(element));
    if (out.back() < 0) corrupt("a shape is negative");
  }
  return out;
}

// True if all elements lie within `available` elements of the storage.
bool fits(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t offset, int64_t available) {
  int64_t last = offset;
  int64_t count = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (__builtin_mul_overflow(count, sizes[i], &count)) return false;
    int64_t reach = 0;
    if (sizes[i] == 0) continue;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach)) return false;
    if (__builtin_add_overflow(last, reach, &last)) return false;
  }
  return count == 0 || last < available;
}

class Reader {
 public:
  Reader(std::string_view pickle, const StorageReader& storage) : rest_(pickle), storage_(storage) {}

  IValue read() {
    while (true) {
      const auto code = static_cast<uint8_t>(take(1)[0]);
      if (code == '.') return plain(pop());
      step(code);
    }
  }

 private:
  std::string_view take(size_t count) {
    if (count > rest_.size()) corrupt("it ends early");
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  template <class Number>
  Number take_number() {  // Little-endian, as all machines that LibTorch supports here.
    Number number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  std::string take_line() {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) corrupt("a name does not end");
    std::string out(take(end));
    take(1);
    return out;
  }

  Value pop() {
    if (stack_.size() <= bottom()) corrupt("a value is missing");
    Value value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  Value& top() {
    if (stack_.size() <= bottom()) corrupt("a value is missing");
    return stack_.back();
  }
  size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<Value> pop_to_mark() {
    if (marks_.empty()) corrupt("a mark is missing");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Value> out(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return out;
  }
  void push(IValue value) { stack_.push_back({std::move(value)}); }
  void push_text(size_t size) { push(std::string(take(size))); }
  void push_tuple(std::vector<Value> elements) {
    auto tuple = std::make_shared<TupleData>();
    for (const Value& element : elements) {
      if (const auto* inner = std::get_if<Tuple>(&element.data)) {
        tuple->nesting = std::max(tuple->nesting, (*inner)->nesting + 1);
      }
    }
    if (tuple->nesting > kNestingMax) corrupt("tuples are nested too deeply");
    tuple->elements = std::move(elements);
    stack_.push_back({std::move(tuple)});
  }
  void push_tuple_of(size_t count) {
    std::vector<Value> elements(count);
    while (count > 0) elements[--count] = pop();
    push_tuple(std::move(elements));
  }
  void get(uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) corrupt("a reference leads nowhere");
    stack_.push_back(found->second);
  }

  void step(uint8_t code) {
    switch (code) {
      case 0x80:
        take(1);
        break;  // PROTO.
      case 0x95:
        take(8);
        break;  // FRAME.
      case '}':
        push(GenericDict(c10::AnyType::get(), c10::AnyType::get()));
        break;
      case ']':
        push(GenericList(c10::AnyType::get()));
        break;
      case ')':
        push_tuple({});
        break;
      case '(':
        if (marks_.size() >= kNestingMax) corrupt("containers are nested too deeply");
        marks_.push_back(stack_.size());
        break;
      case 't':
        push_tuple(pop_to_mark());
        break;
      case 0x85:
        push_tuple_of(1);
        break;
      case 0x86:
        push_tuple_of(2);
        break;
      case 0x87:
        push_tuple_of(3);
        break;
      case 'X':
      case 'T':
        push_text(take_number<uint32_t>());
        break;  // BINUNICODE, BINSTRING.
      case 0x8c:
      case 'U':
        push_text(take_number<uint8_t>());
        break;  // SHORT_BINUNICODE, SHORT_BINSTRING.
      case 0x8d:
        push_text(take_number<uint64_t>());
        break;  // BINUNICODE8.
      case 'q':
        memo_[take_number<uint8_t>()] = top();
        break;
      case 'r':
        memo_[take_number<uint32_t>()] = top();
        break;
      case 0x94:
        memo_[static_cast<uint32_t>(memo_.size())] = top();
        break;  // MEMOIZE.
      case 'h':
        get(take_number<uint8_t>());
        break;
      case 'j':
        get(take_number<uint32_t>());
        break;
      case 'J':
        push(int64_t{take_number<int32_t>()});
        break;
      case 'K':
        push(int64_t{take_number<uint8_t>()});
        break;
      case 'M':
        push(int64_t{take_number<uint16_t>()});
        break;
      case 0x8a:
        push_long();
        break;
      case 'G':
        push_float();
        break;
      case 0x88:
        push(true);
        break;
      case 0x89:
        push(false);
        break;
      case 'N':
        push(IValue());
        break;
      case 'c':
        push_global();
        break;
      case 0x93:
        push_stack_global();
        break;
      case 'Q':
        push_storage();
        break;
      case 'R':
        reduce();
        break;
      case 'b':
        build();
        break;
      case 's':
        set_items(pop_two());
        break;
      case 'u':
        set_items(pop_to_mark());
        break;
      case 'a':
        append({pop()});
        break;
      case 'e':
        append(pop_to_mark());
        break;
      case 0x81:
        fail(fmt::format("it contains an object of class {}", class_below()));  // NEWOBJ.
      default:
        corrupt(fmt::format("unknown operation {:#x}", code));
    }
  }

  void push_long() {
    const size_t size = take_number<uint8_t>();
    if (size > sizeof(int64_t)) fail("it contains an integer of more than 64 bits");
    const std::string_view bytes = take(size);
    uint64_t number = size > 0 && (bytes.back() & 0x80) != 0 ? ~uint64_t{0} : 0;
    std::memcpy(&number, bytes.data(), size);
    push(static_cast<int64_t>(number));
  }
  void push_float() {
    uint64_t bits = 0;
    for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    push(number);
  }
  void push_global() {
    std::string name = take_line();
    name += '.';
    name += take_line();
    stack_.push_back({Global{std::move(name)}});
  }
  void push_stack_global() {
    const IValue name = plain(pop()), module = plain(pop());
    if (!name.isString() || !module.isString()) corrupt("the name of a class is missing");
    stack_.push_back({Global{module.toStringRef() + "." + name.toStringRef()}});
  }
  std::string class_below() {
    pop();
    const Value value = pop();
    const auto* global = std::get_if<Global>(&value.data);
    return global == nullptr ? "unknown" : global->name;
  }

  // ("storage", type, key, location, elements)
  void push_storage() {
    const Value value = pop();
    const auto* tuple = std::get_if<Tuple>(&value.data);
    if (tuple == nullptr || (*tuple)->elements.size() != 5) corrupt("the description of a storage is missing");
    const auto& elements = (*tuple)->elements;
    const auto* global = std::get_if<Global>(&elements[1].data);
    const auto* key = std::get_if<IValue>(&elements[2].data);
    if (global == nullptr || key == nullptr || !key->isString()) corrupt("the description of a storage is wrong");
    const auto type = type_of_storage(global->name);
    if (!type) fail(fmt::format("it contains a {}, a type that is not supported", global->name));
    const int64_t count = integer(elements[4]);
    int64_t bytes = 0;
    if (count < 0 || __builtin_mul_overflow(count, static_cast<int64_t>(c10::elementSize(*type)), &bytes)) {
      corrupt("the size of a storage is wrong");
    }
    auto& known = storages_[key->toStringRef()];
    if (!known || static_cast<int64_t>(known->nbytes()) < bytes) {
      known = storage_(key->toStringRef(), static_cast<size_t>(bytes));
    }
    if (static_cast<int64_t>(known->nbytes()) < bytes) corrupt("a storage is too short");
    stack_.push_back({Stored{*known, *type}});
  }

  void reduce() {
    const Value arguments = pop();
    const Value callable = pop();
    const auto* tuple = std::get_if<Tuple>(&arguments.data);
    const auto* global = std::get_if<Global>(&callable.data);
    if (tuple == nullptr || global == nullptr) corrupt("a call is wrong");
    const auto& elements = (*tuple)->elements;
    const std::string& name = global->name;
    if (name == "collections.OrderedDict" && elements.empty()) {
      push(GenericDict(c10::AnyType::get(), c10::AnyType::get()));
    } else if (name == "torch._utils._rebuild_tensor_v2" && elements.size() >= 4) {
      push_tensor(elements);
    } else if ((name == "torch._utils._rebuild_parameter" || name == "torch.Size" ||
                name.starts_with("torch.jit._pickle.")) &&
               !elements.empty()) {
      stack_.push_back(elements[0]);  // The tensor, tuple or typed container itself.
    } else {
      fail(fmt::format("it contains an object of class {}", name));
    }
  }

  void push_tensor(const std::vector<Value>& arguments) {
    const auto* stored = std::get_if<Stored>(&arguments[0].data);
    if (stored == nullptr) corrupt("a tensor has no storage");
    const int64_t offset = integer(arguments[1]);
    const auto sizes = integers(arguments[2]), strides = integers(arguments[3]);
    const auto available = static_cast<int64_t>(stored->storage.nbytes() / c10::elementSize(stored->type));
    if (offset < 0 || sizes.size() != strides.size() || !fits(sizes, strides, offset, available)) {
      corrupt("a tensor exceeds its storage");
    }
    const at::NoGradGuard no_grad;
    push(at::empty({0}, at::TensorOptions().dtype(stored->type)).set_(stored->storage, offset, sizes, strides));
  }

  // Attributes of an ordered dictionary (_metadata) are dropped.
  void build() {
    pop();
    const auto* object = std::get_if<IValue>(&top().data);
    if (object == nullptr || !object->isGenericDict()) fail("it contains an object with attributes");
  }

  std::vector<Value> pop_two() {
    std::vector<Value> out(2);
    out[1] = pop();
    out[0] = pop();
    return out;
  }
  void set_items(const std::vector<Value>& items) {
    const auto* object = std::get_if<IValue>(&top().data);
    if (object == nullptr || !object->isGenericDict() || items.size() % 2 != 0) corrupt("a dictionary is wrong");
    GenericDict dict = object->toGenericDict();
    for (size_t i = 0; i < items.size(); i += 2) {
      const IValue key = plain(items[i]);
      if (!key.isString() && !key.isInt() && !key.isBool() && !key.isDouble()) {
        fail("it contains a dictionary with keys other than strings and numbers");
      }
      dict.insert_or_assign(key, plain(items[i + 1]));
    }
  }
  void append(const std::vector<Value>& items) {
    const auto* object = std::get_if<IValue>(&top().data);
    if (object == nullptr || !object->isList()) corrupt("a list is wrong");
    GenericList list = object->toList();
    for (const Value& item : items) list.emplace_back(plain(item));
  }

  std::string_view rest_;
  const StorageReader& storage_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;  // Sizes of the stack.
  std::unordered_map<uint32_t, Value> memo_;
  std::map<std::string, std::optional<c10::Storage>> storages_;
};

}  // namespace

IValue read_pickle(std::string_view pickle, const StorageReader& storage) { return Reader(pickle, storage).read(); }

}  // namespace volador::train
