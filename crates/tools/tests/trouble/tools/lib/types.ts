export interface Input { how: string }
