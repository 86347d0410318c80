#include "experiments/katib/algorithm_list.h"

#include <map>

#include "experiments/katib/algorithm_settings.h"
#include "experiments/katib/median_stop.h"

namespace volador::experiments::katib {

v1::ListKatibAlgorithmsReply algorithm_list(const std::vector<std::string>& suggestion_services,
                                            const std::vector<std::string>& early_stopping_services) {
  v1::ListKatibAlgorithmsReply out;
  const auto add = [&out](std::map<std::string, const std::vector<SettingRule>*> by_name,
                          const std::vector<std::string>& services, bool early_stopping) {
    for (const std::string& name : services) by_name[name] = nullptr;
    for (const auto& [name, rules] : by_name) {
      v1::KatibAlgorithm& algorithm = *out.add_algorithms();
      algorithm.set_name(name);
      algorithm.set_early_stopping(early_stopping);
      algorithm.set_external(rules == nullptr);
      if (rules == nullptr) continue;
      for (const SettingRule& rule : *rules) *algorithm.add_settings() = to_wire(rule);
    }
  };
  std::map<std::string, const std::vector<SettingRule>*> own;
  for (const std::string& name : own_algorithms()) own[name] = &settings_of(name);
  add(std::move(own), suggestion_services, false);
  add({{"medianstop", &median_stop_setting_rules()}}, early_stopping_services, true);
  return out;
}

}  // namespace volador::experiments::katib
