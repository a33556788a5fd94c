export type Kind = 'here' | 'there';
type Text = string;

export function checked(how: Text): Text {
  const length: number = how.length;
  if (length > 0) {
    throw new TypeError(
      `not allowed: ${how}`,
    );
  }
  return how;
}
