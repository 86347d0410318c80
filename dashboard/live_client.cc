#include "dashboard/live_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dashboard/json_text.h"

namespace volador::dashboard {
namespace {

// Opens {"type":"snap" or "delta","id":…,"seq":…; the rest follows.
std::string opened(bool snapshot, int64_t id, uint64_t seq, bool more) {
  return fmt::format("{{\"type\":\"{}\",\"id\":{},\"seq\":{},{}", snapshot ? "snap" : "delta", id, seq,
                     more ? "\"more\":true," : "");
}

template <class Texts>
void append_rows(std::string& out, const Texts& rows) {
  out += '[';
  bool first = true;
  for (const auto& row : rows) {
    if (!first) out += ',';
    first = false;
    out += row;
  }
  out += ']';
}

bool is_of_objects(Topic topic) {
  return std::find(kObjectTopics.begin(), kObjectTopics.end(), topic) != kObjectTopics.end();
}

// The string members of the object.
std::map<std::string, std::string> texts_of(const nlohmann::json& object) {
  std::map<std::string, std::string> texts;
  if (!object.is_object()) return texts;
  for (const auto& [key, value] : object.items()) {
    if (value.is_string()) texts[key] = value.get<std::string>();
  }
  return texts;
}

// The member `trials`: ids of the trials whose curves are wanted; nullopt if there is no such list.
std::optional<std::set<std::string>> trials_of(const nlohmann::json& message) {
  const auto member = message.find("trials");
  if (member == message.end() || !member->is_array()) return std::nullopt;
  std::set<std::string> ids;
  for (const auto& id : *member) {
    if (id.is_string()) ids.insert(id.get<std::string>());
  }
  return ids;
}

}  // namespace

std::string bye_text(std::string_view reason) {
  std::string text;
  JsonObject object(text);
  object.text("type", "bye");
  object.text("reason", reason);
  object.end();
  return text;
}

LiveClient::LiveClient(const LiveModel& model, int64_t now_ms, AskLogs ask_logs)
    : model_(model), ask_logs_(std::move(ask_logs)) {
  std::string text;
  JsonObject hello(text);
  hello.text("type", "hello");
  hello.integer("proto", 1);
  hello.integer("seq", static_cast<int64_t>(model_.seq()));
  hello.integer("server_time_ms", now_ms);
  hello.text("version", model_.version());
  hello.text("instance", model_.instance());
  hello.end();
  replies_.push_back(std::move(text));
}

void LiveClient::refuse(int64_t id, const Error& error) {
  std::string text;
  JsonObject object(text);
  object.text("type", "error");
  object.integer("id", id);
  object.text("code", to_string(error.code));
  object.text("detail", error.message);
  object.end();
  replies_.push_back(std::move(text));
}

bool LiveClient::on_text(std::string_view text) {
  if (replies_.size() >= kRepliesMax) {
    why_ = "too many requests wait for their answers";
    return false;
  }
  const auto message = nlohmann::json::parse(text, nullptr, false);
  if (!message.is_object()) {
    why_ = "a message was no JSON object";
    return false;
  }
  const auto op_member = message.find("op");
  const auto id_member = message.find("id");
  const std::string op = op_member != message.end() && op_member->is_string() ? op_member->get<std::string>() : "";
  const int64_t id = id_member != message.end() && id_member->is_number_integer() ? id_member->get<int64_t>() : 0;
  if (op == "ping") {
    replies_.emplace_back("{\"type\":\"pong\"}");
  } else if (op == "unsub") {
    subscriptions_.erase(id);
  } else if (op == "sub") {
    const auto topic = message.find("topic");
    const auto filter = message.find("filter");
    const auto resume = message.find("resume");
    Resume from;
    if (resume != message.end() && resume->is_object()) {
      from.instance = texts_of(*resume)["instance"];
      const auto seq = resume->find("seq");
      if (seq != resume->end() && seq->is_number_unsigned()) from.seq = seq->get<uint64_t>();
    }
    subscribe(id, topic != message.end() && topic->is_string() ? topic->get<std::string>() : "",
              filter != message.end() ? texts_of(*filter) : std::map<std::string, std::string>(), trials_of(message),
              from);
  } else if (op == "want") {
    want(id, trials_of(message));
  } else {
    refuse(id, {ErrorCode::kInvalidArgument, "op: expected sub, want, unsub or ping"});
  }
  return true;
}

void LiveClient::subscribe(int64_t id, std::string_view topic, const std::map<std::string, std::string>& filter,
                           Trials trials, const Resume& resume) {
  const auto value = [&](const char* key) {
    const auto found = filter.find(key);
    return found == filter.end() ? std::string() : found->second;
  };
  if (!subscriptions_.contains(id) && subscriptions_.size() >= kSubscriptionsMax) {
    return refuse(id, {ErrorCode::kUnavailable,
                       fmt::format("a client may have {} subscriptions; end one with unsub first", kSubscriptionsMax)});
  }
  Subscription made;
  made.experiment = value("experiment");
  made.metric = value("metric");
  made.node = value("node");
  const auto known = std::find(kTopicNames.begin(), kTopicNames.end(), topic);
  if (topic == "curves") {
    if (made.experiment.empty())
      return refuse(id, {ErrorCode::kInvalidArgument, "curves: name the experiment in filter.experiment"});
    made.kind = Subscription::Kind::kCurves;
    made.lines.want(std::move(trials));
  } else if (topic == "series") {
    made.kind = Subscription::Kind::kSeries;
  } else if (known == kTopicNames.end()) {
    return refuse(id, {ErrorCode::kInvalidArgument, fmt::format("topic \"{}\": expected {}, curves or series", topic,
                                                                fmt::join(kTopicNames, ", "))});
  } else {
    made.topic = static_cast<Topic>(known - kTopicNames.begin());
  }
  if (made.topic == Topic::kTrials && !made.experiment.empty()) {
    made.wanted = [experiment = made.experiment](std::string_view group) { return group == experiment; };
  }
  if (made.topic == Topic::kLogs) {
    const std::string of = value("id");
    if (of.empty() == made.node.empty())
      return refuse(
          id, {ErrorCode::kInvalidArgument, "logs: name an actor or trial in filter.id, or a node in filter.node"});
    made.kind = Subscription::Kind::kLogs;
    made.waits = true;
    subscriptions_[id] = std::move(made);
    return ask_logs_({.subscription = id, .id = of, .node = subscriptions_[id].node});
  }
  if (made.kind == Subscription::Kind::kTable && resume.seq > 0 && resume.seq <= model_.seq() &&
      resume.instance == model_.instance()) {
    if (const auto cursor = model_.table(made.topic).after(resume.seq)) made.rows = *cursor;
  }
  subscriptions_[id] = std::move(made);
}

void LiveClient::want(int64_t id, Trials trials) {
  const auto found = subscriptions_.find(id);
  if (found == subscriptions_.end() || found->second.kind != Subscription::Kind::kCurves) {
    return refuse(id, {ErrorCode::kInvalidArgument,
                       fmt::format("want: {} is no subscription to curves; begin one with sub", id)});
  }
  found->second.lines.want(std::move(trials));
}

void LiveClient::give_logs(int64_t subscription, const Result<FoundLogs>& found) {
  const auto at = subscriptions_.find(subscription);
  if (at == subscriptions_.end() || !at->second.waits) return;
  if (!found) {
    subscriptions_.erase(at);
    return refuse(subscription, found.error());
  }
  at->second.waits = false;
  at->second.rows = model_.table(Topic::kLogs).now();
  at->second.wanted = [actor = found->actor + "@", node = "@" + at->second.node,
                       shows = found->shows](std::string_view group) {
    const bool of_these = actor.size() > 1 ? group.starts_with(actor) : group.ends_with(node);
    return of_these && (!shows || shows(group.substr(0, group.find('@'))));
  };
  std::vector<std::string> rows;
  for (const v1::LogLine& line : found->lines) rows.push_back(line_json(line));
  std::string text = opened(true, subscription, model_.seq(), false) + "\"rows\":";
  append_rows(text, rows);
  replies_.push_back(text + "}");
}

std::optional<std::string> LiveClient::read_lines(int64_t id, Subscription& subscription) {
  const bool curves = subscription.kind == Subscription::Kind::kCurves;
  static const LiveCurves kNone(1, LiveCurves::AtLimit::kThin);
  const LiveCurves* found = curves ? model_.curves(subscription.experiment, subscription.metric) : &model_.series();
  const LiveCurves& lines = found == nullptr ? kNone : *found;
  if (!lines.has_news(subscription.lines)) return std::nullopt;
  const auto batch =
      lines.read(subscription.lines, curves ? std::string_view() : std::string_view(subscription.node), kMessageBytes);
  if (batch.empty()) return std::nullopt;
  resumable_ = false;  // The cursor is more than a number.
  std::string text =
      opened(batch.snapshot, id, model_.seq(), batch.more) + (batch.snapshot ? "\"rows\":" : "\"upserts\":");
  append_rows(text, batch.upserts);
  if (batch.snapshot) return text + "}";
  std::vector<std::string> deletes;
  for (const std::string& line : batch.deletes) append_json_string(deletes.emplace_back(), line);
  text += ",\"deletes\":";
  append_rows(text, deletes);
  return text + "}";
}

std::optional<std::string> LiveClient::read(int64_t id, Subscription& subscription) {
  if (subscription.waits) return std::nullopt;
  if (subscription.kind == Subscription::Kind::kCurves || subscription.kind == Subscription::Kind::kSeries)
    return read_lines(id, subscription);
  if (is_of_objects(subscription.topic) && !model_.objects_known()) return std::nullopt;
  const LiveTable& table = model_.table(subscription.topic);
  if (!table.has_news(subscription.rows)) return std::nullopt;
  const auto batch = table.read(subscription.rows, subscription.wanted, kMessageBytes);
  if (batch.empty()) return std::nullopt;
  resumable_ = !batch.more;
  std::string text =
      opened(batch.snapshot, id, model_.seq(), batch.more) + (batch.snapshot ? "\"rows\":" : "\"upserts\":");
  append_rows(text, batch.upserts);
  if (batch.snapshot) return text + "}";
  std::vector<std::string> deletes;
  for (const std::string& key : batch.deletes) append_json_string(deletes.emplace_back(), shown_id(key));
  text += ",\"deletes\":";
  append_rows(text, deletes);
  return text + "}";
}

std::optional<std::string> LiveClient::next() {
  resumable_ = false;
  if (!replies_.empty()) {
    std::string reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }
  // Round-robin, so that a busy subscription does not delay the others.
  auto at = subscriptions_.upper_bound(last_served_);
  for (size_t tried = 0; tried < subscriptions_.size(); ++tried, ++at) {
    if (at == subscriptions_.end()) at = subscriptions_.begin();
    auto message = read(at->first, at->second);
    if (!message) continue;
    last_served_ = at->first;
    return message;
  }
  if (!time_ms_) return std::nullopt;
  return fmt::format("{{\"type\":\"current\",\"seq\":{},\"server_time_ms\":{}}}", model_.seq(),
                     *std::exchange(time_ms_, std::nullopt));
}

bool LiveClient::follows_logs() const {
  return std::any_of(subscriptions_.begin(), subscriptions_.end(),
                     [](const auto& entry) { return entry.second.kind == Subscription::Kind::kLogs; });
}

bool LiveClient::wants_objects() const {
  return std::any_of(subscriptions_.begin(), subscriptions_.end(),
                     [](const auto& entry) { return is_of_objects(entry.second.topic); });
}

}  // namespace volador::dashboard
