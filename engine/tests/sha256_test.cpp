// The examples of FIPS 180-4, and every length around a block's end.
#include "io/sha256.h"

#include <span>
#include <string>

#include "check.h"

using namespace mpe;

namespace {

std::string digest(const std::string& text) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(text)));
  return sha.hex();
}

}  // namespace

TEST(published_examples) {
  CHECK_EQUAL(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQUAL(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQUAL(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQUAL(digest(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(pieces_give_what_the_whole_gives) {
  for (std::size_t size = 0; size < 130; ++size) {
    const std::string text(size, 'x');
    Sha256 sha;
    for (const char& c : text) sha.update(std::as_bytes(std::span(&c, 1)));
    CHECK_EQUAL(sha.hex(), digest(text));
  }
  CHECK_EQUAL(digest(std::string(64, 'x')),
              "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
}
