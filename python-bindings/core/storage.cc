#include "python-bindings/core/storage.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python-bindings/core/convert.h"
#include "python-bindings/core/gil.h"
#include "runtime/nearest_word.h"
#include "runtime/storage/storage.h"

namespace volador::python {
namespace {

using storage::Manifest;
using storage::Storage;
using storage::StorageSettings;

// Path, bytes, SHA-256.
using StoredFiles = std::vector<std::tuple<std::string, int64_t, std::string>>;

StoredFiles files_of(const Manifest& manifest) {
  StoredFiles files;
  for (const storage::ManifestFile& file : manifest.files) files.emplace_back(file.path, file.bytes, file.sha256);
  return files;
}

std::unique_ptr<Storage> open_place(const std::string& place) {
  return without_gil([&]() -> Result<std::unique_ptr<Storage>> {
    auto url = storage::parse_storage_url(place);
    if (!url) return make_error(url.error());
    auto opened = Storage::open({std::move(*url)});
    if (!opened) return make_error(opened.error());
    return std::make_unique<Storage>(std::move(*opened));
  });
}

Result<StorageSettings> settings_of(const std::map<std::string, std::string>& given) {
  StorageSettings settings;
  const std::map<std::string, std::optional<std::string>*> keys{{"host_path", &settings.host_path},
                                                                {"storage_path", &settings.storage_path},
                                                                {"container_path", &settings.container_path},
                                                                {"bucket", &settings.bucket},
                                                                {"prefix", &settings.prefix},
                                                                {"access_key", &settings.access_key},
                                                                {"secret_key", &settings.secret_key},
                                                                {"endpoint_url", &settings.endpoint_url},
                                                                {"region", &settings.region},
                                                                {"container", &settings.container},
                                                                {"connection_string", &settings.connection_string},
                                                                {"account_url", &settings.account_url},
                                                                {"credential", &settings.credential}};
  std::vector<std::string> known{"type"};
  for (const auto& [name, field] : keys) known.push_back(name);
  for (const auto& [name, value] : given) {
    const auto found = keys.find(name);
    if (name == "type") {
      settings.type = value;
    } else if (found != keys.end()) {
      *found->second = value;
    } else {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("checkpoint_storage: unknown key \"{}\"{}", name, did_you_mean(name, known)));
    }
  }
  return settings;
}

std::unique_ptr<Storage> open_settings(const std::map<std::string, std::string>& given) {
  return without_gil([&]() -> Result<std::unique_ptr<Storage>> {
    auto settings = settings_of(given);
    if (!settings) return make_error(settings.error());
    auto target = storage::storage_target(*settings);
    if (!target) return make_error(target.error());
    auto opened = Storage::open(*target);
    if (!opened) return make_error(opened.error());
    return std::make_unique<Storage>(std::move(*opened));
  });
}

}  // namespace

void bind_storage(nb::module_& module) {
  nb::class_<Storage>(module, "Storage")
      .def_prop_ro("address", [](const Storage& self) { return self.url().text(); })
      .def("upload",
           [](Storage& self, const std::string& folder, const std::string& key) {
             return files_of(without_gil([&] { return self.upload(folder, key); }).manifest);
           })
      .def("download",
           [](Storage& self, const std::string& key, const std::string& folder, const std::vector<std::string>& only) {
             return files_of(without_gil([&] { return self.download(key, folder, only); }));
           })
      .def("describe", [](Storage& self,
                          const std::string& key) { return files_of(without_gil([&] { return self.describe(key); })); })
      .def("exists",
           [](Storage& self, const std::string& key) { return without_gil([&] { return self.exists(key); }); })
      .def("keys", [](Storage& self, const std::string& key) { return without_gil([&] { return self.keys(key); }); })
      .def("remove", [](Storage& self, const std::string& key) {
        without_gil([&]() -> Result<bool> {
          if (auto removed = self.remove(key); !removed) return make_error(removed.error());
          return true;
        });
      });
  module.def("open_storage", &open_place);
  module.def("is_storage_address", [](const std::string& text) { return storage::is_storage_url(text); });
  module.def("open_storage_settings", &open_settings);
}

}  // namespace volador::python
