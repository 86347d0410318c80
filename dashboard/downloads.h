// Table downloads, generated row by row from the read copy while they are sent. On the server's thread.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "dashboard/http_server.h"
#include "dashboard/live_model.h"

namespace volador::dashboard {

// Posts a function to the server's thread, behind pending ones.
using ToHere = std::function<void(std::function<void()>)>;

// Trials of an experiment with configuration and last metrics:
// "trial,status,node,step,config.lr,…,metrics.loss,…,reason,error". The columns are determined from all trials at the
// start; `model` must outlive it.
std::shared_ptr<BodySource> trials_csv(const LiveModel& model, ToHere to_here, std::string experiment);
// "trial,metric,step,value" for one metric, or all (empty).
std::shared_ptr<BodySource> curves_csv(const LiveModel& model, std::string experiment, std::string metric);

// Converts JSON to YAML in block style; ambiguous texts are quoted.
std::string yaml_text(const nlohmann::ordered_json& value);
// Makes a file name like "a-b.csv"; characters that file systems reject become "_".
std::string safe_file_name(std::string_view text);

}  // namespace volador::dashboard
