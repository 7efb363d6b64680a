/** Formats the sizes of files. */

const SIZE_UNITS = ['KiB', 'MiB', 'GiB'];

/** Formats a size in bytes, such as "3.0 MiB". The hub's limits have the same units. */
export function formatSize(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  let size = bytes / 1024;
  let unit = 0;
  // Compares the rounded size, so that 1023.96 KiB becomes 1.0 MiB.
  while (Number(size.toFixed(1)) >= 1024 && unit < SIZE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(1)} ${SIZE_UNITS[unit]}`;
}
