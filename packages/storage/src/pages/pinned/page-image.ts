/** The pages of a database at one instant, wherever they are read from. */
export interface PageImage {
  /** 0 for a database without pages. */
  readonly pageSize: number
  readonly pageCount: number
  /** Fills `into` with the bytes from `offsetBytes` on, all of them inside the image. */
  read(into: Buffer, offsetBytes: number): Promise<void>
  /** Ends reading. What the image was read from stays. */
  close(): void
}

const PAGE_SIZE_AT = 16

/** The page size that the first bytes of a database file name, in bytes; 0 when they are too few. */
export function pageSizeIn(head: Buffer): number {
  if (head.length < PAGE_SIZE_AT + 2) return 0
  const size = head.readUInt16BE(PAGE_SIZE_AT)
  return size === 1 ? 65_536 : size
}
