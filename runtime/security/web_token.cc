#include "runtime/security/web_token.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/param_build.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base64.h"
#include "runtime/security/openssl_types.h"

namespace volador::security {
namespace {

constexpr size_t kTokenBytesMax = 64 << 10;
constexpr int kRsaBitsMin = 2048;
constexpr int kRsaBitsMax = 16384;

using BigNumber = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using EcSignature = std::unique_ptr<ECDSA_SIG, Freed<ECDSA_SIG_free>>;

struct Curve {
  std::string_view name, group;
  size_t bytes;  // Size of a coordinate.
};
constexpr std::array<Curve, 2> kCurves{{{"P-256", "prime256v1", 32}, {"P-384", "secp384r1", 48}}};

struct Algorithm {
  std::string_view name;
  std::string_view curve;  // Empty: RSA with PKCS #1 v1.5.
  const EVP_MD* (*digest)();
};
constexpr std::array<Algorithm, 5> kAlgorithms{{{"RS256", "", EVP_sha256},
                                                {"RS384", "", EVP_sha384},
                                                {"RS512", "", EVP_sha512},
                                                {"ES256", "P-256", EVP_sha256},
                                                {"ES384", "P-384", EVP_sha384}}};

std::string text_at(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

BigNumber number_of(std::string_view bytes) {
  return BigNumber(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()), nullptr));
}

KeyPtr key_from(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(OSSL_PARAM_BLD_to_param(builder));
  const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  const bool made = parameters && context && EVP_PKEY_fromdata_init(context.get()) == 1 &&
                    EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) == 1;
  KeyPtr out(key);
  if (!made) {
    take_openssl_reason();
    return nullptr;
  }
  const KeyContext checked(EVP_PKEY_CTX_new_from_pkey(nullptr, out.get(), nullptr));
  if (!checked || EVP_PKEY_public_check(checked.get()) != 1) {
    take_openssl_reason();
    return nullptr;
  }
  return out;
}

// Null: not a usable key.
KeyPtr rsa_key(const nlohmann::json& key) {
  const auto modulus = from_base64url(text_at(key, "n"));
  const auto exponent = from_base64url(text_at(key, "e"));
  if (!modulus || !exponent || modulus->size() > kRsaBitsMax / 8 + 1 || exponent->empty() || exponent->size() > 8)
    return nullptr;
  const BigNumber n = number_of(*modulus), e = number_of(*exponent);
  const int bits = n ? BN_num_bits(n.get()) : 0;
  if (!e || bits < kRsaBitsMin || bits > kRsaBitsMax) return nullptr;
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (!builder || OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()) != 1)
    return nullptr;
  return key_from("RSA", builder.get());
}

KeyPtr ec_key(const nlohmann::json& key, const Curve& curve) {
  const auto x = from_base64url(text_at(key, "x"));
  const auto y = from_base64url(text_at(key, "y"));
  if (!x || !y || x->size() != curve.bytes || y->size() != curve.bytes) return nullptr;
  const std::string point = "\x04" + *x + *y;
  const ParameterBuilder builder(OSSL_PARAM_BLD_new());
  if (!builder ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve.group.data(),
                                      curve.group.size()) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()) != 1)
    return nullptr;
  return key_from("EC", builder.get());
}

// A signature on a curve is two numbers one after the other; OpenSSL takes them in DER. nullopt: of another length.
std::optional<std::string> der_signature(std::string_view both, size_t bytes) {
  if (both.size() != 2 * bytes) return std::nullopt;
  BigNumber r = number_of(both.substr(0, bytes)), s = number_of(both.substr(bytes));
  const EcSignature signature(ECDSA_SIG_new());
  if (!r || !s || !signature || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) return std::nullopt;
  static_cast<void>(r.release());
  static_cast<void>(s.release());
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(signature.get(), &der);
  if (length <= 0) return std::nullopt;
  std::string out(reinterpret_cast<const char*>(der), static_cast<size_t>(length));
  OPENSSL_free(der);
  return out;
}

bool verifies(EVP_PKEY* key, const Algorithm& algorithm, std::string_view text, const std::string& signature) {
  const DigestContext context(EVP_MD_CTX_new());
  const bool good =
      context && EVP_DigestVerifyInit(context.get(), nullptr, algorithm.digest(), nullptr, key) == 1 &&
      EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()), signature.size(),
                       reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
  if (!good) take_openssl_reason();
  return good;
}

tl::unexpected<Error> no_token(std::string_view why) {
  return make_error(ErrorCode::kUnauthenticated, fmt::format("the token of the provider: {}", why));
}

}  // namespace

struct WebKeys::Key {
  std::string id, algorithm;  // Empty: not given.
  std::string_view curve;     // Empty: RSA.
  KeyPtr key;
};

Result<WebKeys> WebKeys::parse(std::string_view json) {
  const auto document = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto list = document.is_object() ? document.find("keys") : document.end();
  if (!document.is_object() || list == document.end() || !list->is_array() || list->size() > kKeysMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("expected a JSON object with at most {} keys in its member \"keys\"", kKeysMax));
  }
  WebKeys out;
  for (const auto& given : *list) {
    if (!given.is_object()) continue;
    if (const std::string use = text_at(given, "use"); !use.empty() && use != "sig") continue;
    Key key{.id = text_at(given, "kid"), .algorithm = text_at(given, "alg"), .curve = {}, .key = nullptr};
    const std::string type = text_at(given, "kty");
    if (type == "RSA") key.key = rsa_key(given);
    for (const Curve& curve : kCurves) {
      if (type != "EC" || text_at(given, "crv") != curve.name) continue;
      key.curve = curve.name;
      key.key = ec_key(given, curve);
    }
    if (key.key) out.keys_.push_back(std::make_shared<const Key>(std::move(key)));
  }
  return out;
}

Result<std::string> WebKeys::payload_of(std::string_view token) const {
  if (token.size() > kTokenBytesMax) return no_token(fmt::format("it is longer than {} bytes", kTokenBytesMax));
  const size_t first = token.find('.');
  const size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos)
    return no_token("expected three parts with dots between them");
  const auto header_text = from_base64url(token.substr(0, first));
  auto payload = from_base64url(token.substr(first + 1, second - first - 1));
  auto signature = from_base64url(token.substr(second + 1));
  const auto header = header_text ? nlohmann::json::parse(*header_text, nullptr, false) : nlohmann::json();
  if (!payload || !signature || !header.is_object()) return no_token("a part of it is not base64url of JSON");
  // An extension that the token calls critical and that is unknown here.
  if (header.contains("crit")) return no_token("it uses extensions that are not supported");
  const std::string name = text_at(header, "alg");
  const Algorithm* algorithm = nullptr;
  for (const Algorithm& each : kAlgorithms) {
    if (each.name == name) algorithm = &each;
  }
  if (algorithm == nullptr) {
    return no_token(
        fmt::format("it is signed by \"{}\"; expected RS256, RS384, RS512, ES256 or ES384, which the "
                    "provider's settings of this client select",
                    name.substr(0, 32)));
  }
  if (!algorithm->curve.empty()) {
    auto der = der_signature(*signature, algorithm->curve == "P-256" ? 32 : 48);
    if (!der) return no_token("its signature has the wrong length");
    signature = std::move(der);
  }
  const std::string id = text_at(header, "kid");
  bool known = false;
  for (const auto& key : keys_) {
    if (!id.empty() && key->id != id) continue;
    known = true;
    if (key->curve != algorithm->curve || (!key->algorithm.empty() && key->algorithm != name)) continue;
    if (verifies(key->key.get(), *algorithm, token.substr(0, second), *signature)) return std::move(*payload);
  }
  if (!known)
    return make_error(ErrorCode::kNotFound,
                      fmt::format("the provider has no key \"{}\", with which its token is signed", id.substr(0, 64)));
  return no_token("its signature is wrong");
}

}  // namespace volador::security
