/* The faces of a cell of transport.c, and the triangles into which these are divided.

   The distance to the face of a cell ahead, along one axis. Rounding may have put the particle behind it. */
HELPER double to_face(double at, ulong cell, double way, double side) {
    const double distance = ((double)(cell + (way > 0.0 ? 1 : 0)) * side - at) / way;
    return way == 0.0 ? 1e300 : distance < 0.0 ? 0.0 : distance;
}

HELPER double component(double x, double y, double z, uint axis) { return axis == 0 ? x : axis == 1 ? y : z; }

/* Whether the way from a point p along d, both in coordinates of the cell, leaves by the triangle of a face's centre
   and two of its corners, as if it were any triangle. `by` is the axis of the face, `up` its end, and `at` which of its
   four triangles. */
HELPER uint leaves_by(double px, double py, double pz, double dx, double dy, double dz, double side, uint by, uint up,
                      uint at) {
    const uint s = (by + 1) % 3, t = (by + 2) % 3, next = at + 1 & 3;
    const double plane = up ? side : 0.0, middle = 0.5 * side;
    const double bs = at == 1 || at == 2 ? side : 0.0, bt = at >= 2 ? side : 0.0;
    const double cs = next == 1 || next == 2 ? side : 0.0, ct = next >= 2 ? side : 0.0;
    const double ax = by == 0 ? plane : middle, ay = by == 1 ? plane : middle, az = by == 2 ? plane : middle;
    const double bx = by == 0 ? plane : s == 0 ? bs : bt, cx = by == 0 ? plane : s == 0 ? cs : ct;
    const double b_y = by == 1 ? plane : s == 1 ? bs : bt, c_y = by == 1 ? plane : s == 1 ? cs : ct;
    const double bz = by == 2 ? plane : t == 2 ? bt : bs, cz = by == 2 ? plane : t == 2 ? ct : cs;
    const double ex = bx - ax, ey = b_y - ay, ez = bz - az, fx = cx - ax, fy = c_y - ay, fz = cz - az;
    const double nx = ey * fz - ez * fy, ny = ez * fx - ex * fz, nz = ex * fy - ey * fx;
    const double toward = nx * dx + ny * dy + nz * dz, size = nx * nx + ny * ny + nz * nz;
    if (toward == 0.0 || (component(dx, dy, dz, by) > 0.0) != up) return 0;
    const double far = (nx * (ax - px) + ny * (ay - py) + nz * (az - pz)) / toward;
    const double hx = px + far * dx - ax, hy = py + far * dy - ay, hz = pz + far * dz - az;
    const double along_f = nx * (ey * hz - ez * hy) + ny * (ez * hx - ex * hz) + nz * (ex * hy - ey * hx);
    const double along_e = nx * (hy * fz - hz * fy) + ny * (hz * fx - hx * fz) + nz * (hx * fy - hy * fx);
    return along_e >= 0.0 && along_f >= 0.0 && along_e + along_f <= size;
}

/* The axis of the face by which a particle leaves its cell: that of the nearest of six planes, or, as in the original,
   of the one of 24 triangles that its way goes through; where rounding finds none, of the nearest plane again. */
HELPER uint axis_of(double to_x, double to_y, double to_z, GLOBAL const ulong* p, double x, double y, double z,
                    double u, double v, double w, double side, uint facets) {
    const uint nearest = to_y < to_x ? (to_z < to_y ? 2 : 1) : (to_z < to_x ? 2 : 0);
    if (facets == 6) return nearest;
    const double px = NUMBER(p, POSITION) - x * side, py = NUMBER(p, POSITION + 1) - y * side,
                 pz = NUMBER(p, POSITION + 2) - z * side;
    uint found = 3;
    for (uint f = 0; f < facets; ++f)
        if (leaves_by(px, py, pz, u, v, w, side, f >> 3, f >> 2 & 1, f & 3)) found = f >> 3;
    return found < 3 ? found : nearest;
}
