// NumPy's .npy files, versions 1 to 3, read and written in pieces so that a batch never has to fit
// in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <istream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/input_values.h"
#include "model/shape.h"

namespace mpe {

enum class NpyType : std::uint8_t { kUint8, kFloat32 };

class NpyReader {
 public:
  // Reads the header and compares the file's size with it. Throws mpe::Error if the file is not a
  // C-ordered array of uint8 or little-endian float32, or is truncated or too long (both sizes).
  explicit NpyReader(const std::string& path);
  // The same over any seekable stream; `name` is used in messages.
  NpyReader(std::unique_ptr<std::istream> stream, std::string name);

  NpyType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  const std::string& name() const { return name_; }

  // The next elements in file order. Throws mpe::Error past the end. The element type must be the
  // file's.
  void read(std::span<std::uint8_t> values);
  void read(std::span<float> values);

 private:
  void read_header();
  void read_bytes(void* bytes, std::size_t count);

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  NpyType type_ = NpyType::kFloat32;
  std::vector<std::int64_t> shape_;
};

// The images of a batch as a network's input.
class ImageReader {
 public:
  // Takes uint8 [N][H][W][C], which become what `values` says, or float32 [N][C][H][W]. Throws
  // mpe::Error if the file holds anything else than images of the shape `image`.
  ImageReader(NpyReader file, const Shape& image, InputValues values = {});

  std::int64_t images() const { return file_.shape()[0]; }
  const Shape& shape() const { return image_; }
  // The next image as [C][H][W]. Throws mpe::Error if a value is not finite.
  void next(std::span<float> image);

 private:
  NpyReader file_;
  Shape image_;
  InputValues values_;
  std::vector<std::uint8_t> pixels_;
  std::int64_t read_ = 0;
};

// Writes a float32 array. The file appears under its name only once it is complete. It is open only
// while something is written: a network has more layers than a process may have files open.
class NpyWriter {
 public:
  // Throws mpe::Error if the file cannot be created.
  NpyWriter(std::string path, std::span<const std::int64_t> shape);
  ~NpyWriter();  // removes what an unfinished file has left
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  // Throws mpe::Error if the values could not be written.
  void write(std::span<const float> values);
  // Throws mpe::Error if more or less was written than the shape says.
  void finish();

 private:
  void append(const void* data, std::size_t bytes, std::ios::openmode mode);

  std::string path_;
  std::string unfinished_path_;
  std::int64_t missing_ = 0;  // elements
  bool finished_ = false;
};

}  // namespace mpe
