/** The number of lines that a change adds and removes. */
export function LineCounts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="line-counts">
      <span class="lines-added">+{added}</span> <span class="lines-removed">−{removed}</span>
    </span>
  );
}
