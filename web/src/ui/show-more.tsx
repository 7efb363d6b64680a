/** The end of a long list, which renders more rows when it comes into view. */

import { useEffect, useRef } from 'preact/hooks';

/** `rowLimit`: how many rows the list renders at most. While the end stays in view, each change calls `onShow` again. */
export function ShowMore({ label, rowLimit, onShow }: { label: string; rowLimit: number; onShow: () => void }) {
  const end = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!end.current) return;
    const observer = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && onShow());
    observer.observe(end.current);
    return () => observer.disconnect();
  }, [rowLimit]);
  return (
    <button type="button" class="button quiet" ref={end} onClick={onShow}>
      {label}
    </button>
  );
}
