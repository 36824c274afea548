#include "CPictures.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>
#include <png.h>
#include <webp/decode.h>
#include <webp/demux.h>

#if !defined(JCS_EXTENSIONS) || !defined(JCS_ALPHA_EXTENSIONS)
#error "libjpeg-turbo is needed: it decodes to red, green, blue and alpha"
#endif

static int failed(char *message, int status, const char *text) {
    snprintf(message, CPICTURES_MESSAGE, "%s", text);
    return status;
}

// MARK: averages

/// The sums of the pixels that were added so far, for each pixel of the smaller picture.
typedef struct {
    uint32_t source_width, source_height, width, height;
    /// For each column of the source: its first column here, and how much of it is there; the rest is in the next one.
    uint32_t *columns;
    float *shares;
    float *sums;
} averages;

static void averages_free(averages *sums) {
    free(sums->columns);
    free(sums->shares);
    free(sums->sums);
    memset(sums, 0, sizeof *sums);
}

/// Finds where a column or row begins among fewer ones, and how much of its area is in the first of these.
static uint32_t place(uint32_t index, uint32_t source, uint32_t target, float *share, float *area) {
    double begin = (double)index * target / source, end = (double)(index + 1) * target / source;
    uint32_t first = (uint32_t)((uint64_t)index * target / source);
    double inside = (end > first + 1 ? first + 1 : end) - begin;
    *share = (float)inside;
    *area = (float)(end - begin);
    return first;
}

static int averages_make(averages *sums, uint32_t source_width, uint32_t source_height, uint32_t width,
                         uint32_t height) {
    memset(sums, 0, sizeof *sums);
    sums->source_width = source_width;
    sums->source_height = source_height;
    sums->width = width;
    sums->height = height;
    sums->columns = malloc(source_width * sizeof *sums->columns);
    sums->shares = malloc(source_width * 2 * sizeof *sums->shares);
    // One column and one row more, so that a share of nothing needs no test.
    sums->sums = calloc((size_t)(width + 1) * (height + 1) * 4, sizeof *sums->sums);
    if (!sums->columns || !sums->shares || !sums->sums) return 0;
    for (uint32_t x = 0; x < source_width; x++) {
        float inside, area;
        sums->columns[x] = place(x, source_width, width, &inside, &area);
        sums->shares[x * 2] = inside;
        sums->shares[x * 2 + 1] = area - inside;
    }
    return 1;
}

/// Adds pixels of one row: those at `first`, `first + step`, …, each standing for itself alone.
static void averages_add(averages *sums, uint32_t y, uint32_t first, uint32_t step, const uint8_t *pixels,
                         uint32_t count) {
    float inside, area;
    uint32_t row = place(y, sums->source_height, sums->height, &inside, &area);
    float rows[2] = {inside, area - inside};
    size_t stride = (size_t)(sums->width + 1) * 4;
    for (int part = 0; part < 2; part++) {
        if (rows[part] <= 0) continue;
        float *line = sums->sums + (row + part) * stride;
        const uint8_t *pixel = pixels;
        for (uint32_t index = 0, x = first; index < count; index++, x += step, pixel += 4) {
            float *sum = line + (size_t)sums->columns[x] * 4;
            float alpha = pixel[3] * (1.0f / 255);
            float left = sums->shares[x * 2] * rows[part], right = sums->shares[x * 2 + 1] * rows[part];
            float red = pixel[0] * alpha, green = pixel[1] * alpha, blue = pixel[2] * alpha;
            sum[0] += red * left;
            sum[1] += green * left;
            sum[2] += blue * left;
            sum[3] += pixel[3] * left;
            sum[4] += red * right;
            sum[5] += green * right;
            sum[6] += blue * right;
            sum[7] += pixel[3] * right;
        }
    }
}

static void averages_write(const averages *sums, uint8_t *pixels) {
    for (uint32_t y = 0; y < sums->height; y++) {
        const float *line = sums->sums + (size_t)y * (sums->width + 1) * 4;
        for (uint32_t index = 0; index < sums->width * 4; index++) {
            float value = line[index] + 0.5f;
            *pixels++ = value > 255 ? 255 : (uint8_t)value;
        }
    }
}

// MARK: JPEG

typedef struct {
    struct jpeg_error_mgr manager;
    jmp_buf jump;
    char *message;
    int status;
} jpeg_failure;

static void jpeg_fail(j_common_ptr common) {
    jpeg_failure *failure = (jpeg_failure *)common->err;
    char text[JMSG_LENGTH_MAX];
    common->err->format_message(common, text);
    switch (common->err->msg_code) {
    case JERR_OUT_OF_MEMORY: failure->status = cpictures_no_memory; break;
    case JERR_IMAGE_TOO_BIG: failure->status = cpictures_too_large; break;
    default: failure->status = cpictures_damaged;
    }
    failed(failure->message, failure->status, text);
    longjmp(failure->jump, 1);
}

/// Pixels that are missing would be grey. Other warnings, such as bytes between two segments, harm nothing.
static void jpeg_warn(j_common_ptr common, int level) {
    if (level >= 0) return;
    int code = common->err->msg_code;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER) jpeg_fail(common);
    common->err->num_warnings++;
}

static void jpeg_prepare(struct jpeg_error_mgr **place, jpeg_failure *failure, char *message) {
    *place = jpeg_std_error(&failure->manager);
    failure->manager.error_exit = jpeg_fail;
    failure->manager.emit_message = jpeg_warn;
    failure->message = message;
    failure->status = cpictures_damaged;
}

static int jpeg_read(const uint8_t *bytes, size_t count, cpictures_header *header, averages *sums, uint32_t width,
                     uint32_t height, uint8_t *pixels, char *message) {
    struct jpeg_decompress_struct jpeg;
    jpeg_failure failure;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg_prepare(&jpeg.err, &failure, message);
    if (setjmp(failure.jump)) {
        jpeg_destroy_decompress(&jpeg);
        return failure.status;
    }
    jpeg_create_decompress(&jpeg);
    jpeg_mem_src(&jpeg, bytes, (unsigned long)count);
    jpeg_read_header(&jpeg, TRUE);
    if (header) {
        header->width = jpeg.image_width;
        header->height = jpeg.image_height;
        jpeg_destroy_decompress(&jpeg);
        return cpictures_done;
    }
    // The decoder makes it smaller by eighths, at little cost.
    jpeg.scale_denom = 8;
    for (jpeg.scale_num = 1; jpeg.scale_num < 8; jpeg.scale_num++) {
        if ((uint64_t)jpeg.image_width * jpeg.scale_num >= (uint64_t)width * 8
            && (uint64_t)jpeg.image_height * jpeg.scale_num >= (uint64_t)height * 8)
            break;
    }
    int is_printed = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = is_printed ? JCS_CMYK : JCS_EXT_RGBA;
    jpeg_start_decompress(&jpeg);
    if (!averages_make(sums, jpeg.output_width, jpeg.output_height, width, height)) {
        jpeg_destroy_decompress(&jpeg);
        return failed(message, cpictures_no_memory, "no memory");
    }
    JSAMPARRAY row = jpeg.mem->alloc_sarray((j_common_ptr)&jpeg, JPOOL_IMAGE, jpeg.output_width * 4, 1);
    while (jpeg.output_scanline < jpeg.output_height) {
        uint32_t y = jpeg.output_scanline;
        jpeg_read_scanlines(&jpeg, row, 1);
        if (is_printed) {
            // Adobe's programs store the inks inverted. Source: libjpeg.txt, "Special color spaces"
            uint8_t flip = jpeg.saw_Adobe_marker ? 0 : 255;
            for (uint8_t *pixel = row[0]; pixel < row[0] + jpeg.output_width * 4; pixel += 4) {
                unsigned black = pixel[3] ^ flip;
                for (int ink = 0; ink < 3; ink++) pixel[ink] = (uint8_t)(((pixel[ink] ^ flip) * black + 127) / 255);
                pixel[3] = 255;
            }
        }
        averages_add(sums, y, 0, 1, row[0], jpeg.output_width);
    }
    averages_write(sums, pixels);
    jpeg_destroy_decompress(&jpeg);
    return cpictures_done;
}

int cpictures_encode_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, int quality, uint8_t **output,
                          size_t *count, char *message) {
    struct jpeg_compress_struct jpeg;
    jpeg_failure failure;
    unsigned char *buffer = NULL;
    unsigned long size = 0;
    memset(&jpeg, 0, sizeof jpeg);
    jpeg_prepare(&jpeg.err, &failure, message);
    if (setjmp(failure.jump)) {
        jpeg_destroy_compress(&jpeg);
        return failure.status;
    }
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &buffer, &size);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg.optimize_coding = TRUE;
    // Colours at full resolution: small coloured writing stays sharp.
    jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < height) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)jpeg.next_scanline * width * 3);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *output = buffer;
    *count = size;
    return cpictures_done;
}

// MARK: PNG

typedef struct {
    const uint8_t *bytes;
    size_t count;
} png_source;

/// The most bytes of a chunk without pixels that is unpacked, and of all that are kept.
#define PNG_CHUNK_LIMIT 1000000

static void png_take(png_structp png, png_bytep target, size_t count) {
    png_source *source = png_get_io_ptr(png);
    if (count > source->count) png_error(png, "it ends in the middle");
    memcpy(target, source->bytes, count);
    source->bytes += count;
    source->count -= count;
}

static void png_fail(png_structp png, png_const_charp text) {
    failed(png_get_error_ptr(png), cpictures_damaged, text);
    png_longjmp(png, 1);
}

static void png_warn(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static int png_read(const uint8_t *bytes, size_t count, cpictures_header *header, averages *sums, uint32_t width,
                    uint32_t height, uint8_t *pixels, char *message) {
    png_source source = {bytes, count};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, message, png_fail, png_warn);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_read_struct(&png, NULL, NULL);
        return failed(message, cpictures_no_memory, "no memory");
    }
    uint8_t *volatile row = NULL;
    if (setjmp(png_jmpbuf(png))) {
        free(row);
        png_destroy_read_struct(&png, &info, NULL);
        return cpictures_damaged;
    }
    png_set_user_limits(png, 0x7FFFFFFF, 0x7FFFFFFF);
    png_set_chunk_malloc_max(png, PNG_CHUNK_LIMIT);
    png_set_chunk_cache_max(png, 16);
    // Of the chunks that say more about the picture only transparency matters.
    static const png_byte wanted[] = "tRNS";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, wanted, 1);
    png_set_read_fn(png, &source, png_take);
    png_read_info(png, info);
    uint32_t source_width = png_get_image_width(png, info), source_height = png_get_image_height(png, info);
    if (header) {
        header->width = source_width;
        header->height = source_height;
        png_destroy_read_struct(&png, &info, NULL);
        return cpictures_done;
    }
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    int is_interlaced = png_get_interlace_type(png, info) == PNG_INTERLACE_ADAM7;
    png_read_update_info(png, info);
    row = malloc((size_t)source_width * 4);
    if (!row || png_get_rowbytes(png, info) != (size_t)source_width * 4
        || !averages_make(sums, source_width, source_height, width, height)) {
        free(row);
        png_destroy_read_struct(&png, &info, NULL);
        return failed(message, cpictures_no_memory, "no memory");
    }
    // Each pass of an interlaced picture has some of its pixels; in which order they are added does not matter.
    for (int pass = 0; pass < (is_interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); pass++) {
        uint32_t columns = is_interlaced ? PNG_PASS_COLS(source_width, pass) : source_width;
        uint32_t rows = is_interlaced ? PNG_PASS_ROWS(source_height, pass) : source_height;
        if (!columns) continue;
        for (uint32_t y = 0; y < rows; y++) {
            png_read_row(png, row, NULL);
            if (is_interlaced)
                averages_add(sums, PNG_ROW_FROM_PASS_ROW(y, pass), PNG_PASS_START_COL(pass),
                             1u << PNG_PASS_COL_SHIFT(pass), row, columns);
            else
                averages_add(sums, y, 0, 1, row, columns);
        }
    }
    averages_write(sums, pixels);
    free(row);
    png_destroy_read_struct(&png, &info, NULL);
    return cpictures_done;
}

typedef struct {
    uint8_t *bytes;
    size_t count, capacity, limit;
    int status;
} png_target;

static void png_put(png_structp png, png_bytep bytes, size_t count) {
    png_target *target = png_get_io_ptr(png);
    if (count > target->limit - target->count) {
        target->status = cpictures_too_large;
        png_error(png, "the file is too large");
    }
    if (target->capacity - target->count < count) {
        size_t capacity = (target->count + count) * 2;
        uint8_t *grown = realloc(target->bytes, capacity);
        if (!grown) png_error(png, "no memory");
        target->bytes = grown;
        target->capacity = capacity;
    }
    memcpy(target->bytes + target->count, bytes, count);
    target->count += count;
}

static void png_flush_nothing(png_structp png) { (void)png; }

/// Writes into a target that is the caller's: what a function changes after its own `setjmp` is lost by `longjmp`.
static int png_write(const uint8_t *pixels, uint32_t width, uint32_t height, int has_alpha, png_target *target,
                     char *message) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, message, png_fail, png_warn);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_write_struct(&png, NULL);
        return failed(message, cpictures_no_memory, "no memory");
    }
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        return target->status;
    }
    png_set_write_fn(png, target, png_put, png_flush_nothing);
    png_set_compression_level(png, 9);
    png_set_IHDR(png, info, width, height, 8, has_alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (uint32_t y = 0; y < height; y++) png_write_row(png, pixels + (size_t)y * width * (has_alpha ? 4 : 3));
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return cpictures_done;
}

int cpictures_encode_png(const uint8_t *pixels, uint32_t width, uint32_t height, int has_alpha, size_t limit,
                         uint8_t **output, size_t *count, char *message) {
    png_target target = {NULL, 0, 0, limit, cpictures_no_memory};
    int status = png_write(pixels, width, height, has_alpha, &target, message);
    if (status != cpictures_done) {
        free(target.bytes);
        return status;
    }
    *output = target.bytes;
    *count = target.count;
    return cpictures_done;
}

void cpictures_free(uint8_t *output) { free(output); }

// MARK: WebP

static int webp_fail(VP8StatusCode code, char *message) {
    switch (code) {
    case VP8_STATUS_OK: return cpictures_done;
    case VP8_STATUS_OUT_OF_MEMORY: return failed(message, cpictures_no_memory, "no memory");
    case VP8_STATUS_NOT_ENOUGH_DATA: return failed(message, cpictures_damaged, "it ends in the middle");
    default: return failed(message, cpictures_damaged, "its pixels cannot be read");
    }
}

static int webp_read(const uint8_t *bytes, size_t count, cpictures_header *header, uint32_t width, uint32_t height,
                     uint8_t *pixels, char *message) {
    WebPData data = {bytes, count};
    WebPDemuxer *demuxer = WebPDemux(&data);
    WebPIterator frame;
    if (!demuxer || !WebPDemuxGetFrame(demuxer, 1, &frame)) {
        WebPDemuxDelete(demuxer);
        return failed(message, cpictures_damaged, "it has no whole frame");
    }
    int status = cpictures_done;
    if (header) {
        header->width = (uint32_t)frame.width;
        header->height = (uint32_t)frame.height;
    } else {
        WebPDecoderConfig config;
        WebPInitDecoderConfig(&config);
        config.options.use_scaling = 1;
        config.options.scaled_width = (int)width;
        config.options.scaled_height = (int)height;
        config.output.colorspace = MODE_rgbA;
        config.output.is_external_memory = 1;
        config.output.u.RGBA.rgba = pixels;
        config.output.u.RGBA.stride = (int)width * 4;
        config.output.u.RGBA.size = (size_t)width * height * 4;
        status = webp_fail(WebPDecode(frame.fragment.bytes, frame.fragment.size, &config), message);
        WebPFreeDecBuffer(&config.output);
    }
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return status;
}

// MARK: any format

int cpictures_read_header(int format, const uint8_t *bytes, size_t count, cpictures_header *header, char *message) {
    memset(header, 0, sizeof *header);
    message[0] = 0;
    switch (format) {
    case cpictures_jpeg: return jpeg_read(bytes, count, header, NULL, 0, 0, NULL, message);
    case cpictures_png: return png_read(bytes, count, header, NULL, 0, 0, NULL, message);
    default: return webp_read(bytes, count, header, 0, 0, NULL, message);
    }
}

int cpictures_decode(int format, const uint8_t *bytes, size_t count, uint32_t width, uint32_t height, uint8_t *pixels,
                     char *message) {
    averages sums;
    memset(&sums, 0, sizeof sums);
    message[0] = 0;
    int status;
    switch (format) {
    case cpictures_jpeg: status = jpeg_read(bytes, count, NULL, &sums, width, height, pixels, message); break;
    case cpictures_png: status = png_read(bytes, count, NULL, &sums, width, height, pixels, message); break;
    default: status = webp_read(bytes, count, NULL, width, height, pixels, message);
    }
    averages_free(&sums);
    return status;
}
