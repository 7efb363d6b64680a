// Tables and values for a terminal.

/**
 * Formats rows as a table, with columns of equal width.
 * @param {string[][]} rows
 * @param {{isNumber?: (column: number) => boolean}} [options] `isNumber`: whether a column is aligned at its end
 */
export function formatTable(rows, { isNumber = () => false } = {}) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const pad = (cell, column) => (isNumber(column) ? cell.padStart(widths[column]) : cell.padEnd(widths[column]));
  return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n');
}

/** Removes characters that move the cursor, change colours or are invisible. @param {string} text */
export const printable = (text) => text.replace(/[\p{Cc}\p{Cf}]/gu, '');

/** Formats a time in UTC, to the minute. @param {number} time Unix milliseconds */
export const formatTime = (time) => new Date(time).toLocaleString('sv').slice(0, 16);

const SIZE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** Formats a size, such as "3.0 MiB". @param {number} bytes */
export function formatSize(bytes) {
  const unit = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), SIZE_UNITS.length - 1);
  return unit === 0 ? `${bytes} B` : `${(bytes / 1024 ** unit).toFixed(1)} ${SIZE_UNITS[unit]}`;
}
