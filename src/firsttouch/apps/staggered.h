/* Fields of CloverLeaf on a staggered grid, of which each process has a block of nx x ny cells with two more around it.
   Field f is at fields[f][y + 2][x + 2], with x from -2 to nx + 2 and y from -2 to ny + 2. Node (x, y) is the lower
   left corner of cell (x, y), and faces are those at its left and below it, so that fields on nodes and faces have one
   column or row more of their own, which are the first of the next block too. Cells are dx wide and dy high. */
#define FIELDS 15
#define DENSITY0 0
#define ENERGY0 1
#define PRESSURE 2
#define VISCOSITY 3
#define XVEL0 4
#define YVEL0 5
#define DENSITY1 6
#define ENERGY1 7
#define XVEL1 8
#define YVEL1 9
#define MASS_FLUX 10 /* through faces at the left of cells; + 1: through those below them */
#define VOL_FLUX 12
#define SOUND 14
#define HALO 2
#define WIDE(nx) ((nx) + 5)
#define THREADS 256 /* of a group */
#define SUMMED 6    /* words for each group of a reduction */

/* Where a field begins, and item i of `wide` in a row, from cell (0, 0) on. */
HELPER ulong plane(ulong nx, ulong ny, uint field) { return (ulong)field * WIDE(nx) * (ny + 5); }
HELPER ulong spot(ulong i, ulong wide, ulong nx) { return (i / wide + HALO) * WIDE(nx) + i % wide + HALO; }
HELPER double lower(double a, double b) { return a < b ? a : b; }
HELPER double higher(double a, double b) { return a > b ? a : b; }
