/** Renders a plain text, and its code from left to right. Code is in backticks, which stay visible. */
export const TextWithCode = ({ text }: { text: string }) => (
  <>{text.split(/(`[^`\n]+`)/).map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>
);
