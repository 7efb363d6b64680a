/**
 * Rules for emphasis in Chinese, Japanese and Korean. These languages have no spaces between words, so the rules of CommonMark do not
 * recognize many marks.
 */

import type { MarkedExtension } from 'marked';
import markedCjkFriendly from 'marked-cjk-friendly';

const CJK = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}]/u;

const rules = markedCjkFriendly().tokenizer;

export const CJK_RULES: MarkedExtension = {
  tokenizer: {
    // `false` calls the parser's own rule: other texts keep this rule, which is faster and closer to CommonMark.
    emStrong(source, maskedSource, previous) {
      return CJK.test(maskedSource) && rules?.emStrong?.call(this, source, maskedSource, previous);
    },
    del(source, maskedSource, previous) {
      // One tilde is a range or an approximation, such as `5~7`; two tildes strike out.
      if (!source.startsWith('~~')) return undefined;
      return CJK.test(maskedSource) && rules?.del?.call(this, source, maskedSource, previous);
    },
  },
};
