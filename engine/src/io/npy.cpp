#include "io/npy.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "error.h"
#include "io/file.h"
#include "io/text.h"

namespace mpe {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are read as they lie");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kPreamble = 8;           // magic and version
constexpr std::size_t kLongestHeader = 65535;  // NumPy's own limit for plain arrays is less
constexpr std::size_t kMostDimensions = 32;

struct NpyHeader {
  std::string type;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

// Reads the header's Python dictionary: strings, booleans and a tuple of integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t file_offset, const std::string& name)
      : text_(text), file_offset_(file_offset), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      const int field = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (field < 0) fail("unknown key " + mpe::quoted(key));
      if (std::exchange(seen[field], true)) fail("second key " + mpe::quoted(key));
      if (field == 0) header.type = string();
      if (field == 1) header.fortran_order = boolean();
      if (field == 2) header.shape = tuple();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2]) fail("descr, fortran_order or shape is missing");
    skip_blanks();
    if (position_ != text_.size()) fail("something follows the dictionary");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(name_ + ": npy header, offset " + std::to_string(file_offset_ + position_) + ": " +
                message);
  }

  void skip_blanks() {
    while (position_ < text_.size() && std::strchr(" \t\r\n", text_[position_]) != nullptr) {
      ++position_;
    }
  }

  bool accept(char c) {
    skip_blanks();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }

  std::string string() {
    skip_blanks();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a string (structured types are not read)");
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("the string does not end");
    const std::string_view value = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return std::string(value);
  }

  bool boolean() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    fail("expected True or False");
  }

  std::int64_t integer() {
    skip_blanks();
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;
    const std::size_t start = position_;
    std::int64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = value * 10 + (text_[position_++] - '0');
      if (value > kMost) fail("a dimension is too large");
    }
    if (position_ == start) fail("expected a dimension");
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      if (values.size() == kMostDimensions) fail("too many dimensions");
      values.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t file_offset_;
  const std::string& name_;
};

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (const std::int64_t size : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + (shape.size() == 1 ? ",)" : ")");
}

// The product of the dimensions, or nothing if it passes `most`.
std::optional<std::int64_t> elements_of(std::span<const std::int64_t> shape, std::int64_t most) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size != 0 && elements > most / size) return std::nullopt;
    elements *= size;
  }
  return elements;
}

}  // namespace

NpyReader::NpyReader(const std::string& path) : NpyReader(open_file(path), path) {}

NpyReader::NpyReader(std::unique_ptr<std::istream> stream, std::string name)
    : stream_(std::move(stream)), name_(std::move(name)) {
  read_header();
}

void NpyReader::read_bytes(void* bytes, std::size_t count) {
  stream_->read(static_cast<char*>(bytes), static_cast<std::streamsize>(count));
  if (static_cast<std::size_t>(stream_->gcount()) != count) {
    throw Error(name_ + ": cannot read: the file ends early");
  }
}

void NpyReader::read_header() {
  stream_->seekg(0, std::ios::end);
  const std::int64_t size = stream_->tellg();
  stream_->seekg(0);
  if (!*stream_ || size < 0) throw Error(name_ + ": cannot read");

  std::array<char, kPreamble> preamble{};
  if (size >= static_cast<std::int64_t>(kPreamble)) read_bytes(preamble.data(), kPreamble);
  if (!std::string_view(preamble.data(), kPreamble).starts_with(kMagic)) {
    throw Error(name_ + ": not an npy file: it does not start with \\x93NUMPY; use numpy.save");
  }
  const int version = static_cast<unsigned char>(preamble[6]);
  if (version < 1 || version > 3) {
    throw Error(name_ + ": npy version " + std::to_string(version) + " is not known; 1 to 3 are");
  }
  std::uint32_t length = 0;
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  read_bytes(&length, length_bytes);
  const std::size_t start = kPreamble + length_bytes;
  if (length > kLongestHeader || start + length > static_cast<std::uint64_t>(size)) {
    throw Error(name_ + ": npy header of " + std::to_string(length) + " bytes in a file of " +
                std::to_string(size) + "; the file is truncated or corrupt");
  }
  std::string text(length, '\0');
  read_bytes(text.data(), length);
  NpyHeader header = HeaderParser(text, start, name_).parse();

  if (header.type == "|u1") {
    type_ = NpyType::kUint8;
  } else if (header.type == "<f4") {
    type_ = NpyType::kFloat32;
  } else {
    throw Error(name_ + ": element type " + mpe::quoted(header.type) +
                " is not read; convert to uint8 ('|u1') or float32 ('<f4') with astype");
  }
  if (header.fortran_order && header.shape.size() > 1) {
    throw Error(name_ + ": Fortran order is not read; save numpy.ascontiguousarray(a)");
  }
  shape_ = std::move(header.shape);

  const std::int64_t item = type_ == NpyType::kUint8 ? 1 : 4;
  const auto header_bytes = static_cast<std::int64_t>(start + length);
  const std::int64_t most = (std::numeric_limits<std::int64_t>::max() - header_bytes) / item;
  const std::optional<std::int64_t> elements = elements_of(shape_, most);
  const std::int64_t wanted =
      elements ? header_bytes + *elements * item : std::numeric_limits<std::int64_t>::max();
  if (size != wanted) {
    throw Error(name_ + ": " + (size < wanted ? "truncated" : "too long") + ": the shape " +
                text_of(shape_) + " needs " +
                (elements ? std::to_string(wanted) : "more than " + std::to_string(wanted)) +
                " bytes, the file has " + std::to_string(size));
  }
}

void NpyReader::read(std::span<std::uint8_t> values) {
  if (type_ != NpyType::kUint8) throw Error(name_ + ": holds float32, not uint8");
  read_bytes(values.data(), values.size_bytes());
}

void NpyReader::read(std::span<float> values) {
  if (type_ != NpyType::kFloat32) throw Error(name_ + ": holds uint8, not float32");
  read_bytes(values.data(), values.size_bytes());
}

ImageReader::ImageReader(NpyReader file, const Shape& image, InputValues values)
    : file_(std::move(file)), image_(image), values_(std::move(values)) {
  const bool pixels = file_.type() == NpyType::kUint8;
  const std::vector<std::int64_t>& shape = file_.shape();
  const std::int64_t n = shape.empty() ? 0 : shape[0];
  const std::vector<std::int64_t> wanted =
      pixels ? std::vector<std::int64_t>{n, image.height, image.width, image.channels}
             : std::vector<std::int64_t>{n, image.channels, image.height, image.width};
  if (shape != wanted) {
    throw Error(file_.name() + ": " + (pixels ? "uint8" : "float32") + " array of shape " +
                text_of(shape) + ", but the network takes " +
                (pixels ? "(images, height, width, channels) = (any, "
                        : "(images, channels, height, width) = (any, ") +
                text_of(std::span(wanted).subspan(1)).substr(1));
  }
  if (n == 0) throw Error(file_.name() + ": holds no images");
  if (pixels) pixels_.resize(static_cast<std::size_t>(image.elements()));
}

void ImageReader::next(std::span<float> image) {
  if (file_.type() == NpyType::kFloat32) {
    file_.read(image);
    for (std::size_t i = 0; i < image.size(); ++i) {
      if (!std::isfinite(image[i])) {
        throw Error(file_.name() + ": image " + std::to_string(read_) + ", element " +
                    std::to_string(i) + " is not finite");
      }
    }
  } else {
    file_.read(std::span(pixels_));
    const auto channels = static_cast<std::size_t>(image_.channels);
    const std::size_t area = pixels_.size() / channels;
    for (std::size_t c = 0; c < channels; ++c) {
      const std::size_t from = values_.blue_first ? channels - 1 - c : c;
      const float mean = values_.mean[values_.mean.size() == 1 ? 0 : c];
      const float deviation = values_.deviation[values_.deviation.size() == 1 ? 0 : c];
      for (std::size_t i = 0; i < area; ++i) {
        image[c * area + i] = (static_cast<float>(pixels_[i * channels + from]) - mean) / deviation;
      }
    }
  }
  ++read_;
}

NpyWriter::NpyWriter(std::string path, std::span<const std::int64_t> shape)
    : path_(std::move(path)),
      unfinished_path_(path_ + "." + std::to_string(getpid()) + ".unfinished") {
  missing_ = elements_of(shape, std::numeric_limits<std::int64_t>::max()).value();
  std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': " + text_of(shape) + ", }";
  // Blanks and a newline so that the data starts at a multiple of 64 bytes.
  const std::size_t start = kPreamble + 2;
  header.append(63 - (start + header.size()) % 64, ' ').push_back('\n');
  const auto length = static_cast<std::uint16_t>(header.size());
  std::string preamble(kMagic);
  preamble += {'\x01', '\0', static_cast<char>(length & 0xFF), static_cast<char>(length >> 8)};
  preamble += header;
  append(preamble.data(), preamble.size(), std::ios::trunc);
}

NpyWriter::~NpyWriter() {
  if (!finished_) std::remove(unfinished_path_.c_str());
}

void NpyWriter::append(const void* data, std::size_t bytes, std::ios::openmode mode) {
  std::ofstream stream(unfinished_path_, std::ios::binary | mode);
  if (!stream) throw Error(path_ + ": cannot write: " + std::strerror(errno));
  stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  stream.close();
  if (stream) return;
  std::remove(unfinished_path_.c_str());
  throw Error(path_ + ": cannot write; is the disk full?");
}

void NpyWriter::write(std::span<const float> values) {
  missing_ -= static_cast<std::int64_t>(values.size());
  append(values.data(), values.size_bytes(), std::ios::app);
}

void NpyWriter::finish() {
  if (missing_ != 0) {
    throw Error(path_ + ": not written: " + std::to_string(missing_) +
                " elements fewer than its shape says");
  }
  if (std::rename(unfinished_path_.c_str(), path_.c_str()) != 0) {
    throw Error(path_ + ": cannot write: " + std::strerror(errno));
  }
  finished_ = true;
}

}  // namespace mpe
