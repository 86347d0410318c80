// Signatures of JSON Web Tokens, with keys that are made here.
#include "runtime/security/web_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base64.h"

namespace volador::security {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct KeyDeleter {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using TestKey = std::unique_ptr<EVP_PKEY, KeyDeleter>;

std::string number_at(EVP_PKEY* key, const char* name, size_t bytes) {
  BIGNUM* number = nullptr;
  EVP_PKEY_get_bn_param(key, name, &number);
  std::string out(bytes == 0 ? static_cast<size_t>(BN_num_bytes(number)) : bytes, '\0');
  BN_bn2binpad(number, reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size()));
  BN_free(number);
  return base64url(out);
}

json rsa_jwk(EVP_PKEY* key, const std::string& id) {
  return {{"kty", "RSA"},
          {"kid", id},
          {"use", "sig"},
          {"n", number_at(key, OSSL_PKEY_PARAM_RSA_N, 0)},
          {"e", number_at(key, OSSL_PKEY_PARAM_RSA_E, 0)}};
}

json ec_jwk(EVP_PKEY* key, const std::string& id, const std::string& curve, size_t bytes) {
  return {{"kty", "EC"},
          {"kid", id},
          {"crv", curve},
          {"x", number_at(key, OSSL_PKEY_PARAM_EC_PUB_X, bytes)},
          {"y", number_at(key, OSSL_PKEY_PARAM_EC_PUB_Y, bytes)}};
}

std::string signed_by(EVP_PKEY* key, const EVP_MD* digest, const std::string& text) {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_DigestSignInit(context, nullptr, digest, nullptr, key);
  size_t size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  EVP_DigestSign(context, nullptr, &size, bytes, text.size());
  std::string out(size, '\0');
  EVP_DigestSign(context, reinterpret_cast<unsigned char*>(out.data()), &size, bytes, text.size());
  out.resize(size);
  EVP_MD_CTX_free(context);
  return out;
}

// The two numbers of a signature on a curve, as tokens have them.
std::string raw_of_der(const std::string& der, int bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  ECDSA_SIG* signature = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
  std::string out(static_cast<size_t>(2 * bytes), '\0');
  BN_bn2binpad(ECDSA_SIG_get0_r(signature), reinterpret_cast<unsigned char*>(out.data()), bytes);
  BN_bn2binpad(ECDSA_SIG_get0_s(signature), reinterpret_cast<unsigned char*>(out.data()) + bytes, bytes);
  ECDSA_SIG_free(signature);
  return out;
}

std::string unsigned_part(const json& header, const std::string& payload) {
  return base64url(header.dump()) + "." + base64url(payload);
}

class WebKeysTest : public ::testing::Test {
 protected:
  std::string rsa_token(const json& header, const EVP_MD* digest = EVP_sha256(), EVP_PKEY* key = nullptr) {
    const std::string text = unsigned_part(header, kPayload);
    return text + "." + base64url(signed_by(key == nullptr ? rsa_.get() : key, digest, text));
  }
  std::string ec_token(const json& header, EVP_PKEY* key, const EVP_MD* digest, int bytes) {
    const std::string text = unsigned_part(header, kPayload);
    return text + "." + base64url(raw_of_der(signed_by(key, digest, text), bytes));
  }
  WebKeys keys(const std::vector<json>& list) {
    auto parsed = WebKeys::parse(json{{"keys", list}}.dump());
    EXPECT_TRUE(parsed) << parsed.error().message;
    return std::move(*parsed);
  }
  static std::string refusal(const WebKeys& keys, const std::string& token) {
    const auto payload = keys.payload_of(token);
    return payload ? "none" : payload.error().message;
  }

  const std::string kPayload = R"({"sub":"7"})";
  const TestKey rsa_{EVP_RSA_gen(2048)};
  const TestKey other_rsa_{EVP_RSA_gen(2048)};
  const TestKey p256_{EVP_EC_gen("P-256")};
  const TestKey p384_{EVP_EC_gen("P-384")};
};

TEST_F(WebKeysTest, AcceptsTheAlgorithmsOfProviders) {
  const WebKeys all =
      keys({rsa_jwk(rsa_.get(), "r"), ec_jwk(p256_.get(), "e", "P-256", 32), ec_jwk(p384_.get(), "f", "P-384", 48)});
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(all.payload_of(rsa_token({{"alg", "RS256"}, {"kid", "r"}})).value(), kPayload);
  EXPECT_EQ(all.payload_of(rsa_token({{"alg", "RS384"}, {"kid", "r"}}, EVP_sha384())).value(), kPayload);
  EXPECT_EQ(all.payload_of(rsa_token({{"alg", "RS512"}, {"kid", "r"}}, EVP_sha512())).value(), kPayload);
  EXPECT_EQ(all.payload_of(ec_token({{"alg", "ES256"}, {"kid", "e"}}, p256_.get(), EVP_sha256(), 32)).value(),
            kPayload);
  EXPECT_EQ(all.payload_of(ec_token({{"alg", "ES384"}, {"kid", "f"}}, p384_.get(), EVP_sha384(), 48)).value(),
            kPayload);
  EXPECT_EQ(all.payload_of(rsa_token({{"alg", "RS256"}})).value(), kPayload) << "without the id of a key";
}

TEST_F(WebKeysTest, RefusesMissingAndSymmetricSignatures) {
  const json jwk = rsa_jwk(rsa_.get(), "r");
  const WebKeys one = keys({jwk});
  for (const char* none : {"none", "None", "NONE", ""}) {
    const std::string text = unsigned_part({{"alg", none}, {"kid", "r"}}, kPayload);
    EXPECT_THAT(refusal(one, text + "."), HasSubstr("it is signed by")) << none;
  }
  // The public key as the secret of HS256.
  const std::string text = unsigned_part({{"alg", "HS256"}, {"kid", "r"}}, kPayload);
  const std::string secret = jwk["n"];
  unsigned char mac[32];
  unsigned length = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &length);
  EXPECT_THAT(refusal(one, text + "." + base64url(std::string(reinterpret_cast<char*>(mac), length))),
              HasSubstr("signed by \"HS256\""));
}

TEST_F(WebKeysTest, RefusesOtherKeysAndChangedTokens) {
  const WebKeys one = keys({rsa_jwk(rsa_.get(), "r"), ec_jwk(p256_.get(), "e", "P-256", 32)});
  const std::string good = rsa_token({{"alg", "RS256"}, {"kid", "r"}});
  EXPECT_THAT(refusal(one, rsa_token({{"alg", "RS256"}, {"kid", "r"}}, EVP_sha256(), other_rsa_.get())),
              HasSubstr("its signature is wrong"));
  EXPECT_THAT(refusal(one, rsa_token({{"alg", "RS256"}, {"kid", "e"}})), HasSubstr("its signature is wrong"));
  EXPECT_THAT(refusal(one, rsa_token({{"alg", "RS512"}, {"kid", "r"}})), HasSubstr("its signature is wrong"));
  EXPECT_EQ(one.payload_of(rsa_token({{"alg", "RS256"}, {"kid", "new"}})).error().code, ErrorCode::kNotFound);
  std::string changed = good;
  changed.replace(good.find('.') + 1, base64url(kPayload).size(), base64url(R"({"sub":"8"})"));
  EXPECT_THAT(refusal(one, changed), HasSubstr("its signature is wrong"));
  EXPECT_THAT(refusal(one, ec_token({{"alg", "ES256"}, {"kid", "e"}}, p256_.get(), EVP_sha256(), 32) + "AAAA"),
              HasSubstr("wrong length"));
  EXPECT_THAT(refusal(one, good + ".x"), HasSubstr("three parts"));
  EXPECT_THAT(refusal(one, "a.b"), HasSubstr("three parts"));
  EXPECT_THAT(refusal(one, "a.b.c"), HasSubstr("base64url"));
  EXPECT_THAT(refusal(one, good + "="), HasSubstr("base64url"));
  EXPECT_THAT(refusal(one, rsa_token({{"alg", "RS256"}, {"kid", "r"}, {"crit", {"exp"}}})), HasSubstr("extensions"));
  EXPECT_THAT(refusal(one, std::string(70'000, 'a')), HasSubstr("longer than"));
}

TEST_F(WebKeysTest, SkipsKeysThatAreNotForSignatures) {
  json encrypting = rsa_jwk(rsa_.get(), "r");
  encrypting["use"] = "enc";
  json other_algorithm = rsa_jwk(rsa_.get(), "a");
  other_algorithm["alg"] = "RS512";
  json off_curve = ec_jwk(p256_.get(), "c", "P-256", 32);
  off_curve["y"] = off_curve["x"];
  const TestKey small{EVP_RSA_gen(1024)};
  const WebKeys some = keys({encrypting, other_algorithm, off_curve, rsa_jwk(small.get(), "s"), {{"kty", "oct"}}, 7});
  EXPECT_EQ(some.size(), 1u);
  EXPECT_THAT(refusal(some, rsa_token({{"alg", "RS256"}, {"kid", "a"}})), HasSubstr("its signature is wrong"));
  EXPECT_TRUE(some.payload_of(rsa_token({{"alg", "RS512"}, {"kid", "a"}}, EVP_sha512())));
  for (const char* text : {"", "[]", "{}", R"({"keys":7})", "{\"keys\":["}) EXPECT_FALSE(WebKeys::parse(text)) << text;
}

}  // namespace
}  // namespace volador::security
