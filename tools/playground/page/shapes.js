// Draw shapes without antialiasing. Each function calls `paint(index)` for each pixel of the shape in the picture.

/** Draw a disc. diameter: in pixels; 1 paints a single pixel. */
export function disc({ width, height }, x, y, diameter, paint) {
  const radius = diameter / 2, middle = diameter % 2 ? 0 : 0.5; // an even diameter is centred between pixels
  const reach = Math.ceil(radius);
  for (let row = Math.max(0, y - reach); row <= Math.min(height - 1, y + reach); row++) {
    for (let column = Math.max(0, x - reach); column <= Math.min(width - 1, x + reach); column++) {
      const dx = column - x + middle, dy = row - y + middle;
      if (dx * dx + dy * dy <= radius * radius) paint(row * width + column);
    }
  }
}

/** Draw a line from (x0, y0) to (x1, y1) with Bresenham's algorithm (1965). diameter: width of the line in pixels. */
export function line(size, x0, y0, x1, y1, diameter, paint) {
  const dx = Math.abs(x1 - x0), dy = -Math.abs(y1 - y0);
  const stepX = Math.sign(x1 - x0), stepY = Math.sign(y1 - y0);
  let error = dx + dy;
  for (;;) {
    disc(size, x0, y0, diameter, paint);
    if (x0 === x1 && y0 === y1) return;
    const twice = 2 * error;
    if (twice >= dy) {
      error += dy;
      x0 += stepX;
    }
    if (twice <= dx) {
      error += dx;
      y0 += stepY;
    }
  }
}

/** Fill a rectangle. It includes both corners. */
export function rectangle({ width, height }, x0, y0, x1, y1, paint) {
  const within = (value, end) => Math.min(Math.max(value, 0), end - 1);
  const [left, right] = [within(Math.min(x0, x1), width), within(Math.max(x0, x1), width)];
  const [top, bottom] = [within(Math.min(y0, y1), height), within(Math.max(y0, y1), height)];
  for (let row = top; row <= bottom; row++) {
    for (let column = left; column <= right; column++) paint(row * width + column);
  }
}

/** Fill a polygon by the even-odd rule, and draw its edges with a width of one pixel. */
export function polygon(size, corners, paint) {
  const edges = corners.map((corner, at) => [corner, corners[(at + 1) % corners.length]]);
  for (const [from, to] of edges) line(size, ...from, ...to, 1, paint);
  for (let row = 0; row < size.height; row++) {
    const crossings = edges
      .filter(([[, y0], [, y1]]) => y0 <= row !== y1 <= row)
      .map(([[x0, y0], [x1, y1]]) => x0 + ((row - y0) * (x1 - x0)) / (y1 - y0))
      .sort((first, second) => first - second);
    for (let at = 0; at < crossings.length; at += 2) {
      const first = Math.max(Math.ceil(crossings[at]), 0), last = Math.min(crossings[at + 1], size.width - 1);
      for (let column = first; column <= last; column++) paint(row * size.width + column);
    }
  }
}
