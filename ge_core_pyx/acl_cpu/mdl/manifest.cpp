// SPDX-License-Identifier: Apache-2.0
#include "mdl/manifest.h"

#include <algorithm>
#include <set>

#include "mdl/failure.h"
#include "rt/json.h"

namespace acl_cpu::mdl {
namespace {

constexpr DType kDTypes[] = {{"float16", ACL_FLOAT16, 2}, {"bfloat16", ACL_BF16, 2}, {"float32", ACL_FLOAT, 4},
                             {"float64", ACL_DOUBLE, 8},  {"int8", ACL_INT8, 1},     {"int16", ACL_INT16, 2},
                             {"int32", ACL_INT32, 4},     {"int64", ACL_INT64, 8},   {"uint8", ACL_UINT8, 1},
                             {"uint16", ACL_UINT16, 2},   {"uint32", ACL_UINT32, 4}, {"uint64", ACL_UINT64, 8},
                             {"bool", ACL_BOOL, 1}};

constexpr int64_t kMost = int64_t(1) << 53;

[[noreturn]] void wrong(const std::string& what) { throw JsonError(what); }

void only_keys(const Json& object, const std::string& what, std::initializer_list<const char*> keys) {
  if (object.type != Json::kObject) wrong(what + ": expected an object");
  std::set<std::string_view> known(keys.begin(), keys.end());
  for (const auto& member : object.members)
    if (!known.count(member.first)) wrong(what + ": unknown key '" + member.first + "'");
}

const Json& need(const Json& object, const char* key, const std::string& what) {
  const Json* value = object.find(key);
  if (!value) wrong(what + ": missing key '" + key + "'");
  return *value;
}

const std::vector<Json>& list(const Json& json, const std::string& what) {
  if (json.type != Json::kArray) wrong(what + ": expected a list");
  return json.items;
}

Dims shape_of(const Json& json, const std::string& what) {
  Dims dims;
  for (const Json& dim : list(json, what)) dims.push_back(dim.as_integer(what + ": a dim", -1, kMost));
  if (dims.size() > ACL_MAX_DIM_CNT) wrong(what + ": more than 128 dims");
  return dims;
}

bool is_dynamic(const Dims& dims) { return std::find(dims.begin(), dims.end(), -1) != dims.end(); }

size_t checked_nbytes(const Tensor& tensor, const Dims& dims) {
  size_t count, nbytes;
  if (!element_count(dims, &count) || __builtin_mul_overflow(count, tensor.dtype.nbytes, &nbytes) || nbytes >> 62)
    wrong(tensor.name + ": a shape whose size does not fit");
  return nbytes;
}

Tensor read_tensor(const Json& json, const std::string& what, bool input) {
  only_keys(json, what, {"name", "dtype", "shape", "tensor", input ? "format" : "gear_shapes"});
  Tensor tensor;
  tensor.name = need(json, "name", what).as_string(what + ": name");
  tensor.graph_name = need(json, "tensor", what).as_string(what + ": tensor");
  if (tensor.name.empty() || tensor.graph_name.empty()) wrong(what + ": an empty name");
  if ((tensor.name + tensor.graph_name).find('\0') != std::string::npos) wrong(what + ": a name with NUL");
  const std::string& dtype = need(json, "dtype", what).as_string(what + ": dtype");
  const DType* row = find_dtype(dtype);
  if (!row) wrong(what + ": unknown dtype '" + dtype + "'");
  tensor.dtype = *row;
  tensor.shape = shape_of(need(json, "shape", what), what);
  if (input) {
    const std::string& format = need(json, "format", what).as_string(what + ": format");
    if (format != "NCHW" && format != "ND") wrong(what + ": unknown format '" + format + "'");
    tensor.format = format == "NCHW" ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
  } else if (const Json* shapes = json.find("gear_shapes")) {
    for (const Json& shape : list(*shapes, what)) tensor.gear_shapes.push_back(shape_of(shape, what));
  }
  return tensor;
}

void read_gears(const Json& json, Manifest& manifest) {
  only_keys(json, "gears", {"kind", "values"});
  const std::string& kind = need(json, "kind", "gears").as_string("gears: kind");
  manifest.gear_kind = kind == "batch"        ? GearKind::kBatch
                       : kind == "image_size" ? GearKind::kImageSize
                       : kind == "dims"       ? GearKind::kDims
                                              : GearKind::kNone;
  if (!manifest.geared()) wrong("gears: unknown kind '" + kind + "'");
  for (const Json& gear : list(need(json, "values", "gears"), "gears: values")) {
    std::vector<uint64_t> values;
    auto add = [&](const Json& value) {
      values.push_back(static_cast<uint64_t>(value.as_integer("gears: a value", 1, kMost)));
    };
    if (manifest.gear_kind == GearKind::kBatch) {
      add(gear);
    } else {
      for (const Json& value : list(gear, "gears: a value")) add(value);
    }
    if (manifest.gear_kind == GearKind::kImageSize && values.size() != 2) wrong("gears: image sizes have two numbers");
    if (!manifest.gears.empty() && (values.size() != manifest.gears[0].size() || values <= manifest.gears.back()))
      wrong("gears: the values must be of equal length and ascending");
    manifest.gears.push_back(std::move(values));
  }
  if (manifest.gears.empty() || manifest.gears[0].empty()) wrong("gears: no values");
  if (manifest.gears.size() > ACL_MAX_BATCH_NUM) wrong("gears: more than 128");
}

// Fills the -1 dims of all inputs for one gear, as ATC does: the batch everywhere, height and width in each input, or
// one value after the other over all inputs.
void resolve_inputs(Manifest& manifest, const std::vector<uint64_t>& values) {
  size_t next = 0;
  for (Tensor& input : manifest.inputs) {
    Dims dims = input.shape;
    if (manifest.gear_kind == GearKind::kImageSize) next = 0;
    for (int64_t& dim : dims) {
      if (dim != -1) continue;
      size_t index = manifest.gear_kind == GearKind::kBatch ? 0 : next++;
      if (index >= values.size()) wrong(input.name + ": more -1 dims than a gear has values");
      dim = static_cast<int64_t>(values[index]);
    }
    input.gear_shapes.push_back(std::move(dims));
  }
  if (manifest.gear_kind == GearKind::kDims && next != values.size())
    wrong("gears: expected " + std::to_string(next) + " values, one for each -1");
}

void resolve_outputs(Manifest& manifest) {
  for (Tensor& output : manifest.outputs) {
    if (!manifest.geared()) {
      if (!output.gear_shapes.empty()) wrong(output.name + ": gear_shapes without gears");
      output.gear_shapes = {output.shape};
    }
    if (output.gear_shapes.size() != manifest.gear_count()) wrong(output.name + ": expected one gear shape per gear");
    for (const Dims& dims : output.gear_shapes) {
      bool fits = dims.size() == output.shape.size();
      for (size_t i = 0; fits && i < dims.size(); ++i) fits = output.shape[i] == -1 || output.shape[i] == dims[i];
      if (!fits) wrong(output.name + ": a gear shape does not go with the shape");
    }
  }
}

void read_ranges(const Json& json, Manifest& manifest) {
  if (json.type != Json::kObject) wrong("ranges: expected an object");
  for (const auto& member : json.members) {
    auto is_it = [&](const Tensor& tensor) { return tensor.name == member.first; };
    auto input = std::find_if(manifest.inputs.begin(), manifest.inputs.end(), is_it);
    if (input == manifest.inputs.end()) wrong("ranges: no input '" + member.first + "'");
    for (const Json& bounds : list(member.second, "ranges")) {
      const std::vector<Json>& pair = list(bounds, "ranges");
      if (pair.size() != 2) wrong("ranges: expected [lower, upper]");
      int64_t lower = pair[0].as_integer("ranges: lower", 0, kMost);
      int64_t upper = pair[1].as_integer("ranges: upper", -1, kMost);
      if (upper >= 0 && lower > upper) wrong("ranges: lower is above upper");
      input->range.emplace_back(lower, upper);
    }
    if (input->range.size() != input->shape.size()) wrong(input->name + ": expected one range per dim");
  }
  for (Tensor& input : manifest.inputs) {
    if (input.range.empty()) {
      if (is_dynamic(input.shape)) wrong(input.name + ": a -1 without a range");
      for (int64_t dim : input.shape) input.range.emplace_back(dim, dim);
    }
    Dims upper;
    for (auto [low, high] : input.range) upper.push_back(high);
    input.nbytes = is_dynamic(upper) ? 0 : checked_nbytes(input, upper);
  }
  for (Tensor& output : manifest.outputs)
    output.nbytes = is_dynamic(output.shape) ? 0 : checked_nbytes(output, output.shape);
}

template <class Number, size_t kCount>
bool read_numbers(const Json& json, const char* key, Number (&numbers)[kCount], double least, double most) {
  const Json* found = json.find(key);
  if (!found) return false;
  const std::string what = std::string("aipp: ") + key;
  const std::vector<Json>& items = list(*found, what);
  if (items.size() != kCount) wrong(what + ": expected " + std::to_string(kCount) + " numbers");
  for (size_t i = 0; i < kCount; ++i) {
    if constexpr (std::is_integral_v<Number>) {
      numbers[i] = items[i].as_integer(what, int64_t(least), int64_t(most));
    } else {
      numbers[i] = items[i].as_number(what, least, most);
    }
  }
  return true;
}

bool read_switch(const Json& json, const char* key) {
  const Json* found = json.find(key);
  if (found && found->type != Json::kBool) wrong(std::string("aipp: ") + key + ": expected true or false");
  return found && found->boolean;
}

struct ImageFormat {
  const char* name;
  aclAippInputFormat acl;
  int64_t channels;  // of the last dim
};
constexpr ImageFormat kImageFormats[] = {{"YUV420SP_U8", ACL_YUV420SP_U8, 1},
                                         {"YUV400_U8", ACL_YUV400_U8, 1},
                                         {"RGB888_U8", ACL_RGB888_U8, 3},
                                         {"XRGB8888_U8", ACL_XRGB8888_U8, 4}};

Aipp read_aipp(const Json& json, const Tensor& input) {
  only_keys(json, "aipp",
            {"mode", "format", "source", "crop", "padding", "matrix", "input_bias", "output_bias", "mean", "min",
             "var_reci", "rbuv_swap", "ax_swap"});
  Aipp aipp;
  const std::string& mode = need(json, "mode", "aipp").as_string("aipp: mode");
  if (mode != "static" && mode != "dynamic") wrong("aipp: mode: expected 'static' or 'dynamic', got '" + mode + "'");
  aipp.dynamic = mode == "dynamic";
  const std::string& format = need(json, "format", "aipp").as_string("aipp: format");
  auto row = std::find_if(std::begin(kImageFormats), std::end(kImageFormats),
                          [&](const ImageFormat& item) { return format == item.name; });
  if (row == std::end(kImageFormats)) wrong("aipp: unknown format '" + format + "'");
  aipp.format = row->acl;
  const Dims& dims = input.shape;
  bool fits = input.dtype.acl == ACL_UINT8 && dims.size() == 4 && dims[1] > 0 && dims[2] > 0;
  fits = fits && dims[3] == row->channels && (row->acl != ACL_YUV420SP_U8 || dims[1] % 3 == 0);
  if (!fits)
    wrong(input.name + ": expected uint8 images [n, h, w, " + std::to_string(row->channels) + "]" +
          (row->acl == ACL_YUV420SP_U8 ? ", where h is 3/2 of the image's" : ""));
  const Json& source = need(json, "source", "aipp");
  only_keys(source, "aipp: source", {"dtype", "format", "shape"});
  const DType* dtype = find_dtype(need(source, "dtype", "aipp: source").as_string("aipp: source: dtype"));
  if (!dtype) wrong("aipp: source: unknown dtype");
  const std::string& order = need(source, "format", "aipp: source").as_string("aipp: source: format");
  if (order != "NCHW" && order != "NHWC") wrong("aipp: source: format: expected 'NCHW' or 'NHWC'");
  aipp.source.dtype = *dtype;
  aipp.source.format = order == "NCHW" ? ACL_FORMAT_NCHW : ACL_FORMAT_NHWC;
  aipp.source.shape = shape_of(need(source, "shape", "aipp: source"), "aipp: source");
  const Dims& made = aipp.source.shape;
  if (made.size() != 4 || made[0] != dims[0] || std::count(made.begin() + 1, made.end(), -1) > 0)
    wrong("aipp: source: expected a shape of 4 dims whose first is the input's");
  constexpr double kInt = 2147483647.0;
  aipp.crops = read_numbers(json, "crop", aipp.crop, 0, kInt);
  aipp.pads = read_numbers(json, "padding", aipp.padding, 0, kInt);
  aipp.converts = read_numbers(json, "matrix", aipp.matrix, -kInt, kInt);
  read_numbers(json, "input_bias", aipp.input_bias, 0, 255);
  read_numbers(json, "output_bias", aipp.output_bias, 0, 255);
  read_numbers(json, "mean", aipp.mean, 0, 255);
  read_numbers(json, "min", aipp.minimum, -65504, 65504);
  read_numbers(json, "var_reci", aipp.reciprocal, -65504, 65504);
  aipp.swaps_rbuv = read_switch(json, "rbuv_swap");
  aipp.swaps_ax = read_switch(json, "ax_swap");
  return aipp;
}

void read_aipps(const Json& json, Manifest& manifest) {
  if (json.type != Json::kObject) wrong("aipp: expected an object that names inputs");
  if (!manifest.synthetic) wrong("aipp: images are described, not preprocessed, so only synthetic models have it");
  if (manifest.ranged || (manifest.geared() && manifest.gear_kind != GearKind::kBatch))
    wrong("aipp goes with batch gears or with none");
  for (const auto& member : json.members) {
    auto is_it = [&](const Tensor& tensor) { return tensor.name == member.first; };
    auto input = std::find_if(manifest.inputs.begin(), manifest.inputs.end(), is_it);
    if (input == manifest.inputs.end()) wrong("aipp: no input '" + member.first + "'");
    auto aipp = std::make_shared<Aipp>(read_aipp(member.second, *input));
    if (aipp->dynamic && manifest.dynamic_aipp_input() >= 0) wrong("aipp: more than one dynamic input");
    for (const Dims& image : input->gear_shapes) {
      aipp->source.gear_shapes.push_back(aipp->source.shape);
      aipp->source.gear_shapes.back()[0] = image[0];
      aipp->source.gear_nbytes.push_back(checked_nbytes(aipp->source, aipp->source.gear_shapes.back()));
    }
    input->aipp = std::move(aipp);
  }
  if (manifest.dynamic_aipp_input() >= 0 && (largest_batch(manifest) < 1 || largest_batch(manifest) > 127))
    wrong("aipp: a dynamic input has 1 to 127 images");
}

Manifest read(const Json& json) {
  only_keys(json, "the manifest",
            {"schema", "generator", "soc", "name", "kind", "inputs", "outputs", "gears", "ranges", "exec_us",
             "weight_bytes", "work_bytes", "aipp", "onnx_crc32"});
  auto top = [&](const char* key) -> const Json& { return need(json, key, "the manifest"); };
  top("schema").as_integer("schema", 1, 1);
  top("generator").as_string("generator");
  Manifest manifest;
  manifest.soc = top("soc").as_string("soc");
  manifest.name = top("name").as_string("name");
  const std::string& kind = top("kind").as_string("kind");
  if (kind != "graph" && kind != "synthetic") wrong("kind: expected 'graph' or 'synthetic', got '" + kind + "'");
  manifest.synthetic = kind == "synthetic";
  for (const Json& input : list(top("inputs"), "inputs")) manifest.inputs.push_back(read_tensor(input, "inputs", true));
  for (const Json& output : list(top("outputs"), "outputs"))
    manifest.outputs.push_back(read_tensor(output, "outputs", false));
  if (manifest.inputs.empty() || manifest.outputs.empty()) wrong("expected at least one input and one output");
  for (const std::vector<Tensor>* group : {&manifest.inputs, &manifest.outputs}) {
    std::set<std::string_view> names;
    for (const Tensor& tensor : *group)
      if (!names.insert(tensor.name).second) wrong(tensor.name + ": the same name twice");
  }

  const Json &gears = top("gears"), &ranges = top("ranges");
  if (gears.type != Json::kNull && ranges.type != Json::kNull) wrong("gears and ranges exclude each other");
  if (gears.type != Json::kNull) read_gears(gears, manifest);
  manifest.ranged = ranges.type != Json::kNull;
  if (manifest.ranged) {
    read_ranges(ranges, manifest);
  } else {
    for (size_t gear = 0; gear < manifest.gear_count(); ++gear)
      resolve_inputs(manifest, manifest.geared() ? manifest.gears[gear] : std::vector<uint64_t>());
    resolve_outputs(manifest);
    std::vector<size_t> input_nbytes(manifest.gear_count());
    for (std::vector<Tensor>* group : {&manifest.inputs, &manifest.outputs}) {
      for (Tensor& tensor : *group) {
        for (const Dims& dims : tensor.gear_shapes) tensor.gear_nbytes.push_back(checked_nbytes(tensor, dims));
        tensor.nbytes = *std::max_element(tensor.gear_nbytes.begin(), tensor.gear_nbytes.end());
        if (group == &manifest.inputs)
          for (size_t gear = 0; gear < input_nbytes.size(); ++gear) input_nbytes[gear] += tensor.gear_nbytes[gear];
      }
    }
    manifest.largest_gear =
        static_cast<size_t>(input_nbytes.rend() - std::max_element(input_nbytes.rbegin(), input_nbytes.rend()) - 1);
  }
  if (const Json* aipp = json.find("aipp")) read_aipps(*aipp, manifest);

  const Json& exec_us = top("exec_us");
  auto time = [](const Json& json) { return json.as_number("exec_us", 0, 1e15); };
  if (exec_us.type == Json::kArray) {
    for (const Json& item : exec_us.items) manifest.exec_us.push_back(time(item));
    if (manifest.exec_us.size() != manifest.gear_count()) wrong("exec_us: expected one number per gear");
  } else {
    manifest.exec_us.assign(manifest.gear_count(), exec_us.type == Json::kNull ? 0 : time(exec_us));
  }
  manifest.weight_nbytes = static_cast<size_t>(top("weight_bytes").as_integer("weight_bytes", 0, kMost));
  manifest.work_nbytes = static_cast<size_t>(top("work_bytes").as_integer("work_bytes", 0, kMost));
  if (const Json* crc = json.find("onnx_crc32")) {
    const std::string& digits = crc->as_string("onnx_crc32");
    if (manifest.synthetic || digits.size() != 8 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
      wrong("onnx_crc32: expected 8 hexadecimal digits, in a manifest of kind 'graph', got '" + digits + "'");
    manifest.onnx_crc32 = static_cast<uint32_t>(std::stoul(digits, nullptr, 16));
  }
  return manifest;
}

}  // namespace

const DType* find_dtype(std::string_view name) {
  for (const DType& row : kDTypes)
    if (name == row.name) return &row;
  return nullptr;
}

bool element_count(const Dims& dims, size_t* count) {
  size_t product = 1;
  for (int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(product, static_cast<size_t>(dim), &product)) return false;
  *count = product;
  return true;
}

size_t Tensor::nbytes_of(const Dims& dims) const {
  size_t count = 0;
  return element_count(dims, &count) ? count * dtype.nbytes : 0;
}

Manifest Manifest::parse(std::string_view json, const std::string& source) {
  try {
    return read(Json::parse(std::string(json)));
  } catch (const JsonError& error) {
    refuse(ACL_ERROR_GE_LOAD_MODEL, "%s: the manifest is not valid: %s; compile the model again", source.c_str(),
           error.what());
  }
}

int Manifest::find_gear(const std::vector<uint64_t>& values) const {
  auto found = std::find(gears.begin(), gears.end(), values);
  return found == gears.end() ? -1 : static_cast<int>(found - gears.begin());
}

int Manifest::dynamic_aipp_input() const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].aipp && inputs[i].aipp->dynamic) return static_cast<int>(i);
  return -1;
}

Dims Aipp::image(const Dims& dims) const {
  const int64_t height = format == ACL_YUV420SP_U8 ? dims[1] / 3 * 2 : dims[1];
  return {dims[0], height, dims[2], source.shape[source.format == ACL_FORMAT_NCHW ? 1 : 3]};
}

uint64_t largest_batch(const Manifest& manifest) {
  const Tensor& images = manifest.inputs[static_cast<size_t>(manifest.dynamic_aipp_input())];
  return static_cast<uint64_t>(images.gear_shapes[manifest.largest_gear][0]);
}

Tensor aipp_tensor(const Manifest& manifest) {
  Tensor tensor;
  tensor.name = tensor.graph_name = ACL_DYNAMIC_AIPP_NAME;
  tensor.dtype = *find_dtype("uint8");
  tensor.nbytes = Aipp::data_nbytes(largest_batch(manifest));
  tensor.shape = {static_cast<int64_t>(tensor.nbytes)};
  return tensor;
}

Tensor gear_tensor(const Manifest& manifest) {
  Tensor tensor;
  tensor.name = tensor.graph_name = ACL_DYNAMIC_TENSOR_NAME;
  tensor.dtype = *find_dtype("int64");
  tensor.shape = {static_cast<int64_t>(manifest.gears[0].size())};
  tensor.nbytes = manifest.gears[0].size() * sizeof(int64_t);
  return tensor;
}

}  // namespace acl_cpu::mdl
