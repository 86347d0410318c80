// Tables to take away, made row by row from the read copy while they are sent. On the server's thread.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "dashboard/http_server.h"
#include "dashboard/live_model.h"

namespace volador::dashboard {

// Brings a function to the server's thread, after what waits there already.
using ToHere = std::function<void(std::function<void()>)>;

// Trials of an experiment with their configuration and last metrics: "trial,status,node,step,config.lr,…,metrics.loss,…,reason,error". The
// columns are those of all trials when it begins; `model` outlives it.
std::shared_ptr<BodySource> trials_csv(const LiveModel& model, ToHere to_here, std::string experiment);
// "trial,metric,step,value" of one metric, or of all (empty).
std::shared_ptr<BodySource> curves_csv(const LiveModel& model, std::string experiment, std::string metric);

// JSON as YAML in block style; texts that would read as something else are quoted.
std::string yaml_text(const nlohmann::ordered_json& value);
// "a-b.csv" of any text: what no file system likes becomes "_".
std::string safe_file_name(std::string_view text);

}  // namespace volador::dashboard
