/** Returns the first `maxLength` characters of a text, with a mark if more follow. */
export function cutText(text: string, maxLength: number): string {
  // The two halves of a character outside the basic plane stay together.
  return text.length > maxLength ? `${text.slice(0, maxLength).replace(/[\ud800-\udbff]$/, '')}…` : text;
}
